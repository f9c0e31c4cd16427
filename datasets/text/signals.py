"""Trials of multichannel signals, such as EEG or local field potentials, of several subjects."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from wlkernelnn.datasets.files.download import require_file

from .packed_strings import PackedStrings


class _Published(NamedTuple):
    """Where a published set lies, where it comes from, what its classes are called, and what to know."""

    file: str
    source: str
    classes: tuple[str, ...]
    note: str


_SIGNALS = {
    "eeg_alcohol": _Published(
        file="eeg_alcohol/eeg_alcohol.npz",
        source="the data eegdata of the R package eegkitdata, as arrays X, y and subject (UCI EEG Database)",
        classes=("control", "alcoholic"),
        note="X and Y, of the eyes, and the reference nd are among the channels",
    )
}
# The arrays of a file: the kinds of numpy's types that each may have, and their name for people.
_ARRAYS = {"X": ("iuf", "numbers"), "y": ("iu", "integers"), "subject": ("iuUS", "names")}


class SubjectSplit(NamedTuple):
    """The trials of one subject for testing, and those of all others for training (positions)."""

    subject: str
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True, eq=False)
class Signals:
    """Trials of equal length, each of one subject and one class.

    Attributes:
        x: ``[trials, channels, time]``, float32, or float64 where a type with more digits was read.
        y: int64 ``[trials]``, classes from 0.
        subject: ``[trials]`` whose trial it is.
        classes: Names of the classes.
        name: Name of the set.
        note: What else is to be known of it.

    Raises:
        ValueError: They contradict each other, or a value is not a finite number.
    """

    x: np.ndarray
    y: np.ndarray
    subject: np.ndarray
    classes: tuple[str, ...]
    name: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        name = self.name or type(self).__name__
        for part in ("x", "y", "subject"):
            object.__setattr__(self, part, np.asarray(getattr(self, part)))
        if self.x.ndim != 3 or not self.x.size:
            raise ValueError(f"{name}: X must be of shape [trials, channels, time], got {list(self.x.shape)}")
        for part, values in (("y", self.y), ("subject", self.subject)):
            if values.shape != (len(self.x),):
                raise ValueError(
                    f"{name}: {part} must have an entry for each of {len(self.x)} trials, "
                    f"got shape {list(values.shape)}"
                )
        if len(wrong := np.argwhere(~np.isfinite(self.x))):
            value = f"{self.x[tuple(wrong[0])]} ({len(wrong):,} such values)"
            raise ValueError(f"{name}: X{wrong[0].tolist()} must be a finite number, got {value}")
        if not np.issubdtype(self.y.dtype, np.integer):
            raise ValueError(f"{name}: y must be integers, got {self.y.dtype}")
        if len(outside := np.flatnonzero((self.y < 0) | (self.y >= len(self.classes)))):
            expected = f"a class from 0 to {len(self.classes) - 1}"
            raise ValueError(f"{name}: y[{outside[0]}] must be {expected}, got {self.y[outside[0]]}")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def subjects(self) -> list[str]:
        """All subjects, in the order of their first trials."""
        return list(dict.fromkeys(self.subject.tolist()))

    def leave_one_subject_out(self) -> Iterator[SubjectSplit]:
        """One split per subject; a ``ValueError`` if there is only one."""
        if len(self.subjects) < 2:
            raise ValueError(f"leaving a subject out needs at least 2 of them, got {len(self.subjects)}")
        for subject in self.subjects:
            own = self.subject == subject
            yield SubjectSplit(subject, np.flatnonzero(~own), np.flatnonzero(own))

    def strings(self, positions: np.ndarray, scaled_by: np.ndarray | None = None) -> PackedStrings:
        """Trials as strings: their samples are tokens ``[time, channels]``, their classes the labels.

        Tokens are float32. They are scaled before that in float64, so that a small signal on a large offset
        keeps its digits.

        Args:
            positions: Which trials, or the number of one.
            scaled_by: Trials whose mean and standard deviation every channel is scaled by: those of
                training, wherever results are to say something of other subjects. Default: as they are. A
                channel that is constant in them is only shifted.

        Raises:
            ValueError: A token is beyond the range of float32, or ``scaled_by`` has no trial.
        """
        positions = np.atleast_1d(positions)
        samples = self._samples(positions)
        if scaled_by is not None:
            if not len(scaled_by := np.atleast_1d(scaled_by)):
                raise ValueError(f"{self.name}: scaled_by has no trial")
            mean, deviation = channel_scale(self._samples(scaled_by))
            samples = (samples - mean) / deviation
        if abs(samples).max(initial=0) > np.finfo(np.float32).max:
            raise ValueError(
                f"{self.name}: signals go up to {abs(samples).max():g}, beyond float32: give scaled_by"
            )
        y = torch.from_numpy(self.y[positions])
        ptr = torch.arange(len(y) + 1) * self.x.shape[2]
        return PackedStrings(torch.from_numpy(samples.astype(np.float32)), ptr, y)

    def _samples(self, positions: np.ndarray) -> np.ndarray:
        """The samples of trials, one trial after the other: float64 ``[N, channels]``."""
        return self.x[positions].transpose(0, 2, 1).reshape(-1, self.x.shape[1]).astype(np.float64)


def channel_scale(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each channel of samples ``[N, channels]``, N at least 1.

    The deviation is 1 where a channel is constant but for rounding: it is only shifted.
    """
    # Sums over many samples on a large offset lose digits.
    shifted = samples - samples[0]
    deviation = shifted.std(0)
    constant = deviation <= 1e-12 * abs(samples).max(0)
    return samples[0] + shifted.mean(0), np.where(constant, 1.0, deviation)


def load_signals(source: str | os.PathLike[str], root: str | os.PathLike[str] | None = None) -> Signals:
    """Trials of signals from a NumPy archive, which is read without unpickling anything.

    Args:
        source: A ``.npz`` file with arrays ``X [trials, channels, time]`` (numbers), ``y [trials]``
            (integers, all classes from 0 on) and ``subject [trials]`` (integers or strings); others are left
            alone. Or ``"eeg_alcohol"``: 99 trials of 20 subjects, alcoholic or not, 64 channels, 1 s at 256
            Hz; the file ``eeg_alcohol/eeg_alcohol.npz`` is looked for in ``root``, then in the user's cache.
        root: Folder with published data sets; default ``$WLKERNELNN_DATA``.

    Raises:
        FileNotFoundError: The file is nowhere: says which to put where.
        ValueError: It is not such an archive, or arrays are missing, of another kind or contradict each
            other: names the array, what was expected and what was given.
    """
    if source in _SIGNALS:
        published = _SIGNALS[str(source)]
        path = require_file(published.file, root, published.source)
        return _signals(path, published.classes, str(source), published.note)
    return _signals(Path(source), None, Path(source).stem, "")


def _signals(path: Path, classes: tuple[str, ...] | None, name: str, note: str) -> Signals:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; published sets are {', '.join(_SIGNALS)}")
    arrays = {}
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array")
            for part in _ARRAYS:
                if part not in archive:
                    raise ValueError(f"no array {part!r} (arrays: {', '.join(archive) or 'none'})")
                arrays[part] = archive[part]
    except (ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: expected an .npz archive with arrays X, y and subject, without pickles ({error})"
        ) from error
    for part, (kinds, expected) in _ARRAYS.items():
        if arrays[part].dtype.kind not in kinds:
            raise ValueError(f"{path}: {part} must be an array of {expected}, got {arrays[part].dtype}")
    x, y, subject = arrays.values()
    if classes is None:
        # Of labels {0, 1000000} none but two are classes.
        found = np.unique(y)
        if not np.array_equal(found, np.arange(len(found))):
            shown = ", ".join(map(str, found[:9])) + (", …" if len(found) > 9 else "")
            raise ValueError(f"{path}: y must hold all classes 0, 1, …, each at least once, got {shown}")
        classes = tuple(map(str, found))
    # Numbers keep their digits: float32 holds those of short integers and of itself, no others.
    x = x.astype(np.promote_types(x.dtype, np.float32))
    try:
        return Signals(x, y.astype(np.int64), subject.astype(str), classes, name, note)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
