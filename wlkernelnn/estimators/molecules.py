"""Networks for molecules as scikit-learn's estimators: ``fit(smiles, y)``, ``predict(smiles)``."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets.files.table import binary_targets, numeric_targets
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import FitOptions, score, train_run
from wlkernelnn.utils.checks import check_one_of

from .data import molecules_of, target_frame, train_and_valid, two_classes
from .saved import SavedEstimator

# Arguments of networks that the molecules and their targets give.
_OF_DATA = ("node_dims", "num_edge_types", "num_tasks", "task", "num_node_values", "num_graph_values")
# Initial weights and dropout are drawn from torch's one generator: threads train one after the other.
_training = threading.Lock()


class MoleculeEstimator(SavedEstimator):
    """What regression and classification share: SMILES in, an ensemble of networks trained on them.

    The arguments are said in :class:`MoleculeRegressor`.
    """

    _metric: str

    def __init__(
        self,
        network: Literal["wl", "stack"] = "wl",
        *,
        features: str = "ogb",
        ensemble_size: int = 1,
        hidden_channels: int | None = None,
        dropout: float = 0.0,
        epochs: int = FitOptions.epochs,
        batch_size: int = FitOptions.batch_size,
        lr: float = FitOptions.lr,
        weight_decay: float = FitOptions.weight_decay,
        patience: int = FitOptions.patience,
        validation_fraction: float = 0.1,
        network_options: Mapping[str, Any] | None = None,
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool = False,
    ) -> None:
        self.network = network
        self.features = features
        self.ensemble_size = ensemble_size
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.network_options = network_options
        self.fit_options = fit_options
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def _fit(self, X: Any, y: np.ndarray, names: Sequence[str]) -> None:
        """Train on targets ``[n, T]``, NaN where one is missing."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options, network = self._options(seed), self._network()
        graphs = molecules_of(X, self.features)
        unknown = np.flatnonzero(np.isnan(y).all(axis=1))
        if len(unknown):
            raise ValueError(
                f"y: {len(unknown):,} rows have no target, the first is data row {unknown[0] + 1}"
            )
        # Names are those of files of predictions, and there are no such files here.
        data = graphs.with_targets(y, task=self._task, metric=self._metric)
        split_idx = train_and_valid(data, self.validation_fraction, seed)
        # Whoever has set a seed goes on drawing as if nothing had been trained.
        with _training, torch.random.fork_rng(devices=[]), TemporaryDirectory() as directory:
            ensemble, report = train_run(
                data,
                split_idx,
                Path(directory) / "run",
                options,
                kind=SHORT_NAMES[self.network].__name__,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        ensemble.about["target_names"] = [*names]
        self.ensemble_ = ensemble
        self.validation_score_: float | None = report.get("valid")

    def _predict(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the networks, ``[n, T]``."""
        check_is_fitted(self)
        return self.ensemble_.predict(molecules_of(X, self.ensemble_.about["features"]))

    def _options(self, seed: int) -> FitOptions:
        own = ("epochs", "batch_size", "lr", "weight_decay", "patience")
        more = self._more("fit_options", {field.name for field in fields(FitOptions)}, (*own, "seed"))
        return FitOptions(seed=seed, **{name: getattr(self, name) for name in own}, **more)

    def _network(self) -> dict[str, Any]:
        check_one_of("network", self.network, SHORT_NAMES)
        known = set(inspect.signature(SHORT_NAMES[self.network]).parameters) - {*_OF_DATA}
        more = self._more("network_options", known, ("hidden_channels", "dropout"))
        width = {} if self.hidden_channels is None else {"hidden_channels": self.hidden_channels}
        options = {"dropout": self.dropout, **width, **more}
        SHORT_NAMES[self.network].check_arguments(**options)
        return options

    def _more(self, argument: str, known: set[str], own: Collection[str]) -> dict[str, Any]:
        """Further options, none of which has an argument of its own here."""
        given = getattr(self, argument) or {}
        if not isinstance(given, Mapping):
            raise ValueError(f"{argument} must be a dict of options, got {given!r}")
        for name in given:
            if name in own:
                instead = "random_state" if name == "seed" else name
                raise ValueError(f"{argument}: {name} is set by the argument {instead}")
            if name not in known:
                options = ", ".join(sorted(known - {*own}))
                raise ValueError(f"{argument}: unknown option {name}; known are {options}")
        return {**given}


class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Predicts numbers of molecules by kernel networks, as ``wlkernelnn train`` does.

    >>> from wlkernelnn import MoleculeRegressor
    >>> model = MoleculeRegressor(epochs=2, hidden_channels=8, random_state=0)
    >>> model.fit(["C" * n for n in range(1, 31)], range(30)).predict(["CCCC", "CCO"]).shape
    (2,)

    All molecules count the same: there is no ``sample_weight``.

    Args:
        network: ``"wl"``, :class:`~wlkernelnn.models.GraphKernelNetwork`, or ``"stack"``,
            :class:`~wlkernelnn.models.KernelStackNetwork`.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`.
        ensemble_size: Networks, which differ in their seeds and predict by their mean.
        hidden_channels: Width of a network; default its own.
        dropout, epochs, batch_size, lr, weight_decay, patience: See the network and
            :class:`~wlkernelnn.training.FitOptions`.
        validation_fraction: Part of the molecules, drawn at random, on which the best epoch is chosen;
            0 for the last epoch. All other molecules are trained on.
        network_options, fit_options: Any other arguments of the network and of ``FitOptions``.
        random_state: Seed of the validation part, initial weights, order of molecules and dropout.
        progress: Show a progress bar.

    Attributes:
        ensemble_: The trained networks, an :class:`~wlkernelnn.training.Ensemble`.
        validation_score_: Score of the validation part in ``ensemble_.about["metric"]``, or ``None``.
    """

    _task = "regression"
    _metric = "rmse"

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train the networks.

        Args:
            X: SMILES ``[n]``: a list, array or Series.
            y: Targets ``[n]``, or ``[n, T]`` with NaN where one is missing (every row has at least one).

        Raises:
            TypeError: X is no list of SMILES.
            ValueError: A SMILES gives no molecule or has no target, y has another length or holds something
                else than numbers, or an argument is out of its range.
        """
        frame = target_frame(y, X)
        self._fit(X, numeric_targets(frame, list(frame.columns), "y"), list(frame.columns))
        self._single = np.ndim(y) == 1
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Values in the unit of the targets, float32 ``[n]`` or ``[n, T]``.

        Args:
            X: SMILES ``[n]``.
            return_std: Also give the standard deviation over the networks, of which there must be several, in
                the same shape.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule; or there is one network
                alone, which has no standard deviation.
        """
        check_is_fitted(self)
        if return_std and len(self.ensemble_.networks) < 2:
            raise ValueError("return_std=True needs several networks: ensemble_size of at least 2, got 1")
        mean, std = (values[:, 0] if self._single else values for values in self._predict(X))
        return (mean, std) if return_std else mean

    def score(self, X: Any, y: ArrayLike) -> float:
        """R², the mean over the targets, each of the rows that have it.

        Scorers of scikit-learn take no missing targets; this does.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, one gives no molecule, or y is not as in ``fit``.
        """
        check_is_fitted(self)
        frame = target_frame(y, X)
        return score("r2", numeric_targets(frame, list(frame.columns), "y"), self._predict(X)[0])

    def _outputs(self) -> dict[str, Any]:
        return {"single": self._single}

    def _set_outputs(self, state: dict[str, Any]) -> None:
        single, several = state["single"], len(self.ensemble_.about["target_names"]) > 1
        if not isinstance(single, bool) or (single and several):
            raise ValueError(f"single: expected {'false' if several else 'true or false'}, got {single!r}")
        self._single = single


class MoleculeClassifier(ClassifierMixin, MoleculeEstimator):
    """Tells molecules of two classes apart, for one target or several, as ``wlkernelnn train`` does.

    >>> from wlkernelnn import MoleculeClassifier
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> model = MoleculeClassifier(epochs=2, hidden_channels=8, random_state=0)
    >>> model.fit(smiles, 10 * ["alcohol", "amine"]).predict_proba(["CCO", "CCN", "CCC"]).shape
    (3, 2)

    The arguments, and the attributes but ``classes_``, are those of :class:`MoleculeRegressor`. The
    validation part of a single target has its share of both classes, and the best epoch is that of the least
    ``log_loss``, unless ``fit_options`` have another ``metric``.

    Attributes:
        classes_: The two classes, sorted; of targets ``[n, T]`` a list of 0 and 1 for each.
    """

    _task = "classification"
    _metric = "log_loss"  # a best ROC-AUC says nothing of which probabilities are above a half

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: ArrayLike) -> Self:
        """Train the networks.

        Args:
            X: SMILES ``[n]``: a list, array or Series.
            y: Two classes of any names ``[n]``, or 0 and 1 ``[n, T]`` with NaN where one is missing (every
                row has at least one).

        Raises:
            TypeError: X is no list of SMILES.
            ValueError: A SMILES gives no molecule or has no target, y has another length or other classes, or
                an argument is out of its range.
        """
        frame = target_frame(y, X)
        names = list(frame.columns)
        if single := frame.shape[1] == 1:
            if np.ndim(y) == 2:
                column_or_1d(y, warn=True)
            known = frame[names[0]].notna().to_numpy()
            classes, number = two_classes(frame[names[0]][known].tolist())
            target = np.full((len(frame), 1), np.nan)
            target[known, 0] = number
            if classes.tolist() != [0, 1]:
                names = [f"{names[0]}={classes[1]}"]
        else:
            target = binary_targets(frame, names, "y")
        self._fit(X, target, names)
        self.classes_ = classes if single else [np.array([0, 1]) for _ in names]
        return self

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Probabilities of both classes, float32 ``[n, 2]``; of several targets a list of such arrays.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule.
        """
        positive, _ = self._predict(X)
        each = [np.stack([1 - column, column], axis=1) for column in positive.T]
        return each if isinstance(self.classes_, list) else each[0]

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class, ``[n]``, or 0 or 1 of every target, ``[n, T]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule.
        """
        more = (self._predict(X)[0] > 0.5).astype(int)
        return more if isinstance(self.classes_, list) else self.classes_[more[:, 0]]

    def score(self, X: Any, y: ArrayLike) -> float:
        """The fraction of rows all whose known classes are predicted right; NaN if no class is known.

        Scorers of scikit-learn take no missing classes; this does, and rows without any don't count.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, one gives no molecule, or y has another length,
                another number of targets or another kind of classes than ``fit`` was given.
        """
        check_is_fitted(self)
        true = self._read(target_frame(y, X))
        known = np.asarray(pd.notna(true))
        wrong = np.zeros(true.shape, dtype=bool)
        wrong[known] = self.predict(X).reshape(true.shape)[known] != true[known]
        counted = wrong[known.any(axis=1)]
        return float(1 - counted.any(axis=1).mean()) if len(counted) else float("nan")

    def _read(self, frame: pd.DataFrame) -> np.ndarray:
        """True classes, read as ``fit`` reads them."""
        classes = self.classes_
        if frame.shape[1] != (number := len(classes) if isinstance(classes, list) else 1):
            raise ValueError(f"y: fit was given {number} targets, got {frame.shape[1]}")
        if isinstance(classes, list):
            return binary_targets(frame, list(frame.columns), "y")
        for label in frame[frame.columns[0]].dropna():
            if isinstance(label, str) != isinstance(classes[0], str):
                raise ValueError(f"y: fit was given the classes {classes.tolist()}, got {label!r}")
        return frame.to_numpy()

    def _outputs(self) -> dict[str, Any]:
        return {"classes": np.asarray(self.classes_).tolist()}

    def _set_outputs(self, state: dict[str, Any]) -> None:
        classes, number = state["classes"], len(self.ensemble_.about["target_names"])
        expected = [[0, 1]] * number if number > 1 else two_classes(classes)[0].tolist()
        if classes != expected:
            raise ValueError(f"classes: expected {expected}, got {classes}")
        self.classes_ = list(np.array(classes)) if number > 1 else np.array(classes)
