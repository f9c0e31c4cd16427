"""Networks for molecules as scikit-learn's estimators: ``fit(smiles, y)``, ``predict(smiles)``."""

from __future__ import annotations

import inspect
import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels.base import is_list
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import FitOptions, check_free, save_checkpoint, train_run

# Arguments of networks that the molecules and their targets give.
_OF_DATA = ("node_dims", "num_edge_types", "num_tasks", "task", "num_node_values", "num_graph_values")


class MoleculeEstimator(BaseEstimator):
    """What regression and classification share: SMILES in, an ensemble of networks trained on them.

    The arguments are said in :class:`MoleculeRegressor`.
    """

    _task: Literal["regression", "classification"]
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

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the networks into a run folder, for ``wlkernelnn predict`` and :func:`load_ensemble`.

        Raises:
            NotFittedError: ``fit`` has not been called.
            FileExistsError: The folder holds a run already.
        """
        check_is_fitted(self)
        check_free(directory)
        for i, net in enumerate(self.ensemble_.networks):
            save_checkpoint(Path(directory) / f"model_{i}", net, self.ensemble_.about)

    def _fit(self, X: Any, y: np.ndarray, names: list[str] | None) -> None:
        """Train on targets ``[n]`` or ``[n, T]``, NaN where one is missing."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options, network = self._training(seed), self._network()
        data = self._molecules(X, y=y, target_columns=names, task=self._task, metric=self._metric)
        split_idx = self._split(data, seed)
        # Whoever has set a seed goes on drawing as if nothing had been trained.
        with torch.random.fork_rng(devices=[]), TemporaryDirectory() as directory:
            self.ensemble_, report = train_run(
                data,
                split_idx,
                Path(directory) / "run",
                options,
                kind=SHORT_NAMES[self.network].__name__,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        self.validation_score_: float | None = report.get("valid")
        self._single = y.ndim == 1

    def _predict(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation over the networks, in the shape of the targets."""
        check_is_fitted(self)
        mean, std = self.ensemble_.predict(self._molecules(X))
        return (mean[:, 0], std[:, 0]) if self._single else (mean, std)

    def _training(self, seed: int) -> FitOptions:
        own = ("epochs", "batch_size", "lr", "weight_decay", "patience")
        more = self._more("fit_options", {field.name for field in fields(FitOptions)}, (*own, "seed"))
        return FitOptions(seed=seed, **{name: getattr(self, name) for name in own}, **more)

    def _network(self) -> dict[str, Any]:
        if self.network not in SHORT_NAMES:
            raise ValueError(f"network must be one of {', '.join(SHORT_NAMES)}, got {self.network!r}")
        known = set(inspect.signature(SHORT_NAMES[self.network]).parameters) - {*_OF_DATA}
        more = self._more("network_options", known, ("hidden_channels", "dropout"))
        width = {} if self.hidden_channels is None else {"hidden_channels": self.hidden_channels}
        return {"dropout": self.dropout, **width, **more}

    def _more(self, argument: str, known: set[str], own: Collection[str]) -> dict[str, Any]:
        """Further options, none of which has an argument of its own here."""
        given = dict(getattr(self, argument) or {})
        for name in given:
            if name in own:
                instead = "random_state" if name == "seed" else name
                raise ValueError(f"{argument}: {name} is set by the argument {instead}")
            if name not in known:
                options = ", ".join(sorted(known - {*own}))
                raise ValueError(f"{argument}: unknown option {name}; known are {options}")
        return given

    def _molecules(self, X: Any, **targets: Any) -> PackedGraphs:
        """The molecules of all SMILES, in their order."""
        if not is_list(X) or np.ndim(X) != 1:
            shape = f" of shape {list(np.shape(X))}" if isinstance(X, np.ndarray) else ""
            raise TypeError(f"X: expected a list, array or Series of SMILES, got {type(X).__name__}{shape}")
        data = load_molecules(
            list(X), name="X", features=self.features, on_invalid="skip", cache=False, **targets
        )
        if data.rejects:
            shown = [f"X[{row}] {smiles!r}: {reason}" for row, smiles, reason in data.rejects[:3]]
            if len(data.rejects) > len(shown):
                shown.append(f"and {len(data.rejects) - len(shown):,} more")
            raise ValueError(
                f"{len(data.rejects):,} of {len(X):,} rows cannot be used (featurize(X) lists all that "
                "give no molecule)\n  " + "\n  ".join(shown)
            )
        return data

    def _split(self, data: PackedGraphs, seed: int) -> dict[str, np.ndarray]:
        every = np.arange(len(data))
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must be in [0, 1), got {self.validation_fraction}")
        if not self.validation_fraction:
            return {"train": every}
        one_of_two = self._task == "classification" and data.num_tasks == 1
        train, valid = train_test_split(
            every,
            test_size=self.validation_fraction,
            random_state=seed,
            stratify=data.y[:, 0].numpy() if one_of_two else None,
        )
        return {"train": np.sort(train), "valid": np.sort(valid)}


class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Predicts numbers of molecules by kernel networks, as ``wlkernelnn train`` does.

    >>> from wlkernelnn import MoleculeRegressor
    >>> model = MoleculeRegressor(epochs=2, hidden_channels=8, random_state=0)
    >>> model.fit(["C" * n for n in range(1, 31)], range(30)).predict(["CCCC", "CCO"]).shape
    (2,)

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
            y: Targets ``[n]`` or ``[n, T]``; NaN = missing.

        Raises:
            TypeError: X is no list of SMILES.
            ValueError: A SMILES gives no molecule or has no target, y has another length or holds something
                else than numbers, or an argument is out of its range.
        """
        self._fit(X, np.asarray(y), _names(y))
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Values in the unit of the targets, float32 ``[n]`` or ``[n, T]``.

        Args:
            X: SMILES ``[n]``.
            return_std: Also give the standard deviation over the networks, in the same shape.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule.
        """
        mean, std = self._predict(X)
        return (mean, std) if return_std else mean


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
            y: Two classes of any names ``[n]``, or 0 and 1 ``[n, T]``; NaN (or ``None``) = missing.

        Raises:
            TypeError: X is no list of SMILES.
            ValueError: A SMILES gives no molecule or has no target, y has another length or other classes, or
                an argument is out of its range.
        """
        target = np.asarray(y)
        classes: Any = None
        if target.ndim == 1:
            known = ~pd.isna(target)
            labels = np.asarray(target[known].tolist())  # an array of objects says nothing of its types
            check_classification_targets(labels)
            classes, number = np.unique(labels, return_inverse=True)
            if len(classes) != 2:
                raise ValueError(f"y: expected two classes, got {len(classes)} ({classes.tolist()[:5]})")
            target = np.full(len(target), np.nan)
            target[known] = number
        self._fit(X, target, _names(y))
        self.classes_ = [np.array([0, 1])] * target.shape[1] if classes is None else classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, float32: of both classes ``[n, 2]``, or of class 1 of every target ``[n, T]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule.
        """
        positive, _ = self._predict(X)
        return np.stack([1 - positive, positive], axis=1) if self._single else positive

    def predict(self, X: Any) -> np.ndarray:
        """The more probable class, ``[n]``, or 0 or 1 of every target, ``[n, T]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is no list of SMILES, or one gives no molecule.
        """
        more = (self._predict(X)[0] > 0.5).astype(int)
        return self.classes_[more] if self._single else more


def _names(y: Any) -> list[str] | None:
    """Names of the targets, where pandas brings them."""
    if hasattr(y, "columns"):
        return [str(name) for name in y.columns]
    name = getattr(y, "name", None)
    return None if name is None else [str(name)]
