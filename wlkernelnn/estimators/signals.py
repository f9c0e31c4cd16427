"""Classes of strings of vectors, such as signals: ``fit(arrays, labels)``, ``predict(arrays)``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils import Tags

from wlkernelnn.datasets import PackedStrings
from wlkernelnn.datasets.files.table import frame_of
from wlkernelnn.datasets.text.signals import channel_scale
from wlkernelnn.kernels.base import is_list
from wlkernelnn.training import StringEnsemble
from wlkernelnn.training.folder import with_seeds
from wlkernelnn.training.string_options import StringModelName
from wlkernelnn.training.text.networks import classifier
from wlkernelnn.training.text.run import train_classifiers
from wlkernelnn.utils.checks import check_unmasked

from .data import two_parts
from .strings import Options, StringEstimator


@dataclass(eq=False, repr=False)
class StringClassifier(StringEstimator):
    """Tells classes of strings of vectors apart, such as signals of several channels over time.

    Channels are shifted and scaled by their means and deviations over the training strings. For texts there
    is :class:`TextClassifier`; the network inside is a :class:`~wlkernelnn.sequence.StringNetwork`.

    >>> import numpy as np
    >>> from wlkernelnn import StringClassifier
    >>> rng = np.random.default_rng(0)
    >>> up = [np.arange(n) + rng.normal(size=n) for n in range(10, 30)]
    >>> down = [-signal for signal in up]
    >>> model = StringClassifier(epochs=10, hidden_channels=8, random_state=0)
    >>> model.fit(up + down, 20 * ["up"] + 20 * ["down"]).predict([np.arange(15.0)])
    array(['up'], dtype='<U4')

    All arguments are those of the networks of :class:`TextClassifier`. X are arrays ``[T_i, d]`` of any
    lengths, or ``[T_i]`` of one channel; or one array ``[n, T, d]`` (``[n, T]`` is n strings of one channel).
    Of data frames, of pandas, Polars or Arrow, the columns are the channels, in the order that the first one
    has them in.

    Attributes:
        ensemble_: The networks, a :class:`~wlkernelnn.training.StringEnsemble`.
        classes_: The classes, sorted.
        validation_score_: Accuracy on the validation part, or ``None``.
    """

    _of_vectors = True

    model: StringModelName = "kernel"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _train(
        self,
        X: Any,
        y: np.ndarray,
        names: list[str],
        weights: Any,
        options: Options | None,
        directory: Path,
    ) -> tuple[StringEnsemble, float | None]:
        assert options is not None
        network, of_training = options
        signals = signals_of(X)
        index = two_parts(len(signals), self.validation_fraction, of_training.seed, y, "strings")
        order = sorted(names)  # as files have them
        place = np.array([order.index(name) for name in names])
        training_values = np.concatenate([signals[i] for i in index["train"]]).astype(np.float64)
        mean, std = _scale(training_values)
        about = {
            "task": "classification",
            "level": "vectors",
            "classes": order,
            "target_names": ["label"],
            "metric": "accuracy",
            "mean": mean.tolist(),
            "std": std.tolist(),
            "channels": channel_names(X),
        }
        parts = {
            name: _packed([signals[i] for i in rows], about, place[y[rows]]) for name, rows in index.items()
        }
        ensemble, _ = train_classifiers(
            parts,
            {name: rows.tolist() for name, rows in index.items()},
            directory,
            of_training,
            with_seeds(of_training, self.ensemble_size),
            lambda: classifier(network, len(order), in_channels=signals[0].shape[1]),
            about,
            settings=asdict(network),
            resume=False,
            progress=self.progress,
        )
        if "valid" not in index:
            return ensemble, None
        right = ensemble.probabilities(parts["valid"]).argmax(1) == parts["valid"].y.numpy()
        return ensemble, float(right.mean())

    def _probabilities(self, X: Any) -> np.ndarray:
        about, signals = self.ensemble_.about, signals_of(X)
        names, known = channel_names(X), about.get("channels")
        if None not in (names, known) and names != known:
            raise ValueError(f"X: the channels are called {names}, those of the training {known}")
        if not signals:
            return np.empty((0, len(about["classes"])), dtype=np.float32)
        for i, signal in enumerate(signals):
            if signal.shape[1] != len(about["mean"]):
                raise ValueError(
                    f"X: string {i} has {signal.shape[1]} channels, the training had {len(about['mean'])}"
                )
        strings = _packed(signals, about, np.zeros(len(signals), dtype=np.int64))
        return self.ensemble_.probabilities(strings)


def _scale(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """:func:`channel_scale` of values that float32 can hold; others are refused."""
    largest = np.abs(values).max(0)
    if too_large := np.flatnonzero(largest > np.finfo(np.float32).max).tolist():
        raise ValueError(
            f"X: channel {too_large[0]}: values of up to {largest[too_large[0]]:.3g} are beyond float32"
        )
    return channel_scale(values)


def signals_of(X: Any) -> list[np.ndarray]:
    """Strings of vectors as float arrays ``[T_i, d]``.

    Raises:
        TypeError: X is not a list of arrays of real numbers.
        ValueError: A string is empty, has a value that is not a finite number, or not as many channels as the
            first.
    """
    if not is_list(X) or isinstance(X, str):
        raise TypeError(f"X: expected a list of arrays [T, d] or an array [n, T, d], got {type(X).__name__}")
    signals: list[np.ndarray] = []
    for i, item in enumerate(X):
        check_unmasked(item, f"X: string {i}")
        frame = frame_of(item)
        item = item if frame is None else frame
        try:
            item = item.detach().cpu() if isinstance(item, torch.Tensor) else item
            if np.asarray(item).dtype.kind in "cmM":
                raise TypeError("an imaginary part would be lost, and times are no numbers")
            signal = np.asarray(item, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"X: string {i}: expected an array of real numbers, got {item!r:.60}") from error
        signal = signal[:, None] if signal.ndim == 1 else signal
        if signal.ndim != 2 or not len(signal):
            raise ValueError(f"X: string {i}: expected shape [T, d], T at least 1, got {list(signal.shape)}")
        if signals and signal.shape[1] != signals[0].shape[1]:
            width = signals[0].shape[1]
            raise ValueError(f"X: string {i} has {signal.shape[1]} channels, string 0 has {width}")
        if len(wrong := np.argwhere(~np.isfinite(signal))):
            place = f"step {wrong[0][0]}, channel {wrong[0][1]}"
            raise ValueError(
                f"X: string {i}, {place}: expected a finite number, got {signal[tuple(wrong[0])]}"
            )
        signals.append(signal)
    return signals


def channel_names(X: Any) -> list[str] | None:
    """The columns of strings that are data frames, of pandas, Polars or Arrow; ``None`` if none is.

    Raises:
        ValueError: Two frames have other columns, or another order of them.
    """
    names: list[str] | None = None
    for i, item in enumerate(X):
        if (frame := frame_of(item)) is not None:
            found = [str(name) for name in frame.columns]
            if names is not None and found != names:
                raise ValueError(f"X: string {i} has the columns {found}, others have {names}")
            names = found
    return names


def _packed(signals: Sequence[np.ndarray], about: Mapping[str, Any], y: np.ndarray) -> PackedStrings:
    """Scaled strings end to end; a ValueError names a value that is beyond float32 then."""
    values = (np.concatenate(signals) - about["mean"]) / about["std"]
    ptr = np.cumsum([0, *map(len, signals)])
    if len(wrong := np.argwhere(abs(values) > np.finfo(np.float32).max)):
        row, channel = wrong[0]
        i = int(np.searchsorted(ptr, row, side="right")) - 1
        raise ValueError(
            f"X: string {i}, step {row - ptr[i]}, channel {channel}: {values[row, channel]:.3g} deviations "
            "of the training are beyond float32"
        )
    tokens = torch.from_numpy(values.astype(np.float32))
    return PackedStrings(tokens, torch.from_numpy(ptr), torch.from_numpy(y))
