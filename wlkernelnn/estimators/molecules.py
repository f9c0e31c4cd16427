"""Models of molecules as scikit-learn's estimators: ``fit(smiles, y)``, ``predict(smiles)``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags, column_or_1d
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets.files.targets import binary_targets, numeric_targets
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import Ensemble, forecast, mean_and_std, score
from wlkernelnn.training.classes import decided, of_all_classes
from wlkernelnn.training.molecules.columns import doubts, has_deviations, levels_of
from wlkernelnn.training.molecules.recalibration import LEAST_VALUES, NOTE

from .base import MoleculeEstimator
from .data import in_order, numbered, target_frame, weights_by_class

_NEEDS = f"needs at least {LEAST_VALUES} validation molecules (validation_fraction)"


@dataclass(eq=False, repr=False)
class MoleculeRegressor(RegressorMixin, MoleculeEstimator):
    """Predicts numbers of molecules by a kernel machine or by kernel networks, as ``wlkernelnn train`` does.

    >>> from wlkernelnn import MoleculeRegressor
    >>> model = MoleculeRegressor().fit(["C" * n for n in range(1, 31)], range(30))
    >>> mean, std = model.predict(["CCCC", "CCO"], return_std=True)

    All molecules count the same: there is no ``sample_weight``.

    Args:
        model: ``"auto"`` and ``"gp"`` are a kernel machine, :class:`~wlkernelnn.machines.MoleculeMachine`:
            exact, or with ``"auto"`` and more than 25,000 molecules on 4,096 landmarks. ``"linear"`` is a
            :class:`~wlkernelnn.machines.LinearMachine`, for 100,000 molecules and more. ``"wl"`` and
            ``"stack"`` are networks, :class:`~wlkernelnn.models.GraphKernelNetwork` and
            :class:`~wlkernelnn.models.KernelStackNetwork`; all further arguments but ``features`` and
            ``random_state`` are theirs, and machines warn that they ignore them. ``"gp+wl"``,
            ``"gp+stack"``, ``"linear+wl"`` and ``"linear+stack"`` are a
            :class:`~wlkernelnn.training.JointModel` of a machine and networks, which trains six times as
            many networks.
        features: Of the molecules, see :func:`~wlkernelnn.datasets.get_features`; default
            ``"ogb+invariants+descriptors"``, which a kernel machine needs, and ``"ogb"`` of other models.
        ensemble_size: Networks, which differ in their seeds and predict by their mean.
        hidden_channels: Width of a network; default its own.
        dropout, epochs, batch_size, lr, weight_decay, patience: See the network and
            :class:`~wlkernelnn.training.FitOptions`.
        validation_fraction: Part of the molecules, drawn at random, on which the best epoch is chosen;
            0 for the last epoch. All other molecules are trained on; machines and joint models take all.
        network_options, fit_options: Any other arguments of the network and of ``FitOptions``.
        random_state: Seed of what is drawn: of rows, the validation part, initial weights, the order of
            molecules and dropout.
        progress: Show a progress bar.
        loss: Of networks: ``"squared"`` errors; ``"mve"``, the likelihood of a normal distribution whose mean
            and deviation are both predicted; or ``"quantile"``, the pinball loss of several quantiles:
            the median is the prediction, see :meth:`predict_quantiles`.
        quantiles: Levels of the latter, rising and with 0.5; default 0.05, 0.5 and 0.95.

    Attributes:
        machine_: The machine, if the model is one.
        ensemble_: The networks, an :class:`~wlkernelnn.training.Ensemble`, if the model is one.
        joint_: The :class:`~wlkernelnn.training.JointModel`, if the model is one.
        validation_score_: Score of the validation part in ``ensemble_.about["metric"]``, or ``None``; of
            machines and joint models that of training molecules left out.
    """

    _: KW_ONLY
    loss: Literal["squared", "mve", "quantile"] = "squared"
    quantiles: Sequence[float] | None = None

    _task = "regression"
    _metric = "rmse"

    def fit(self, X: Any, y: ArrayLike, devices: int = 1) -> Self:
        """Train the model.

        Args:
            X: SMILES or RDKit's molecules ``[n]``: a list, an array, or a column of pandas, Polars or Arrow;
                of estimators of graphs these, see the class.
            y: Targets ``[n]``, or ``[n, T]`` with NaN where one is missing (every row has at least one).
            devices: Processes that train a network together, see :class:`~wlkernelnn.training.FitOptions`.

        Raises:
            TypeError: X holds something else than SMILES or molecules (or graphs).
            ValueError: A SMILES gives no molecule or has no target, y has another length or holds something
                else than numbers, or an argument is out of its range.
        """
        if self.loss != "squared" and self.model not in SHORT_NAMES:
            raise ValueError(
                f"loss={self.loss!r} is of networks (model='wl' or 'stack'), got model={self.model!r}"
            )
        frame = target_frame(y, X)
        self._fit(X, numeric_targets(frame, list(frame.columns), "y"), list(frame.columns), devices)
        self._single = np.ndim(y) == 1
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Values in the unit of the targets, floats ``[n]`` or ``[n, T]``.

        Args:
            X: As of ``fit``.
            return_std: Also give the standard deviation of a new measurement, in the same shape. Networks
                need at least 10 validation molecules for it: several with less give the deviation over the
                networks, which is too small, those of ``loss="mve"`` or ``"quantile"`` what they learned, and
                both warn.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not as of ``fit``, or one gives no molecule; or there is one network
                alone, with less than 10 validation molecules.
        """
        if not return_std:
            mean = self._predict(X)
            return mean[:, 0] if self._single else mean
        check_is_fitted(self)
        fitted = self._fitted
        if isinstance(fitted, Ensemble) and not has_deviations(fitted) and len(fitted.networks) < 2:
            raise ValueError(f"return_std=True {_NEEDS}, or several networks (ensemble_size)")
        self._tell_doubts("return_std=True")
        mean, std = mean_and_std(self._fitted, self._new_graphs(X))
        assert std is not None
        return (mean[:, 0], std[:, 0]) if self._single else (mean, std)

    def predict_quantiles(self, X: Any) -> np.ndarray:
        """Quantiles at the levels of ``quantiles``, in order: floats ``[n, Q]`` or ``[n, T, Q]``.

        Those of a target with at least 10 validation values are shifted by conformal regression, see
        :class:`~wlkernelnn.training.Recalibration`; others are as the networks learned them, with a warning.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not a list of SMILES, one of them is not a molecule, or the model does
                not learn quantiles (networks with ``loss="quantile"`` do).
        """
        check_is_fitted(self)
        if not levels_of(self._fitted):
            raise ValueError(f"predict_quantiles needs loss='quantile', got loss={self.loss!r}")
        self._tell_doubts("predict_quantiles")
        found = forecast(self._fitted, self._new_graphs(X)).quantiles
        assert found is not None
        return found[:, 0] if self._single else found

    def _tell_doubts(self, asked: str) -> None:
        """Say what was not fitted to validation errors."""
        warning = doubts(self._fitted)
        if isinstance(self._fitted, Ensemble) and self._fitted.recalibration is None:
            learned = self._fitted.has_distributions
            whose = "as the networks learned them" if learned else "over the networks, and too small"
            warning = f"{asked} {_NEEDS}: these are {whose}"
        if warning:
            warnings.warn(warning, stacklevel=3)

    def score(self, X: Any, y: ArrayLike) -> float:
        """R², the mean over the targets, each of the rows that have it.

        Columns that are called as those of the training may have another order. Scorers of scikit-learn take
        no missing targets; this does.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not as of ``fit``, one gives no molecule, or y is not as in ``fit``.
        """
        check_is_fitted(self)
        frame = self._true(X, y)
        return score("r2", numeric_targets(frame, list(frame.columns), "y"), self._predict(X))

    def _outputs(self) -> dict[str, Any]:
        fitted = self._fitted
        recalibrated = isinstance(fitted, Ensemble) and fitted.recalibration is not None
        return {"single": self._single, NOTE: recalibrated}

    def _set_outputs(self, state: dict[str, Any]) -> None:
        single, several = state["single"], len(self._fitted.about["target_names"]) > 1
        if not isinstance(single, bool) or (single and several):
            raise ValueError(f"single: expected {'false' if several else 'true or false'}, got {single!r}")
        self._single = single


@dataclass(eq=False, repr=False)
class MoleculeClassifier(ClassifierMixin, MoleculeEstimator):
    """Tells molecules of classes apart, for one target or several, as ``wlkernelnn train`` does.

    Several targets have two classes each. A single one may have more.

    >>> from wlkernelnn import MoleculeClassifier
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> model = MoleculeClassifier().fit(smiles, 10 * ["alcohol", "amine"])
    >>> model.predict(["CCO", "CCN"])
    array(['alcohol', 'amine'], dtype='<U7')

    The other arguments, and the attributes but ``classes_``, are those of :class:`MoleculeRegressor`. The
    validation part of networks with a single target has its share of all classes, and the best epoch is that
    of the least ``log_loss``, unless ``fit_options`` have another ``metric``.

    Args:
        class_weight: Of networks, how much molecules of a class count in the loss: ``"balanced"``, see
            :class:`~wlkernelnn.training.FitOptions`; a dict with a number for each class, 1 if not named
            (of targets ``[n, T]`` of 0 and of 1); or ``None``, all alike.
        levels: Of networks (``model="wl"`` or ``"stack"``) with a single target: all classes, from the least
            to the greatest, if they have an order that is to be learned.

    Attributes:
        classes_: The classes, sorted, or the ``levels``; of targets ``[n, T]`` a list of 0 and 1 for each.
    """

    _: KW_ONLY
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    levels: Sequence[Any] | None = None

    _task = "classification"
    _metric = "log_loss"  # a best ROC-AUC says nothing of which probabilities are above a half

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: ArrayLike, devices: int = 1) -> Self:
        """Train the model.

        Args:
            X: SMILES or RDKit's molecules ``[n]``: a list, an array, or a column of pandas, Polars or Arrow;
                of estimators of graphs these, see the class.
            y: Classes of any names ``[n]``, or 0 and 1 ``[n, T]`` with NaN where one is missing (every
                row has at least one).
            devices: Processes that train a network together, see :class:`~wlkernelnn.training.FitOptions`.

        Raises:
            TypeError: X holds something else than SMILES or molecules (or graphs).
            ValueError: A SMILES gives no molecule or has no target, y has another length or other classes, or
                an argument is out of its range.
        """
        frame = target_frame(y, X)
        names, several = list(frame.columns), []
        if self.levels is not None and (len(names) > 1 or self.model not in SHORT_NAMES):
            raise ValueError(
                "levels are of networks (model='wl' or 'stack') with a single target, got "
                f"model={self.model!r} and {len(names)} targets"
            )
        if single := frame.shape[1] == 1:
            if np.ndim(y) == 2:
                column_or_1d(y, warn=True)
            known = frame[names[0]].notna().to_numpy()
            labels = frame[names[0]][known].tolist()
            classes, number = numbered(labels) if self.levels is None else in_order(labels, self.levels)
            if len(classes) < 2:
                raise ValueError(f"y: expected two classes or more, got {len(classes)} ({classes.tolist()})")
            target = np.full((len(frame), 1), np.nan)
            target[known, 0] = number
            if len(classes) > 2 or self.levels is not None:
                several = [*map(str, classes.tolist())]
            elif classes.tolist() != [0, 1]:
                names = [f"{names[0]}={classes[1]}"]
        else:
            target, classes = binary_targets(frame, names, "y"), np.array([0, 1])
        self._fit(X, target, names, devices, several, weights_by_class(self.class_weight, classes))
        self.classes_ = classes if single else [np.array([0, 1]) for _ in names]
        return self

    def predict_proba(self, X: Any) -> np.ndarray | list[np.ndarray]:
        """Probabilities of the classes, floats ``[n, C]``; of several targets a list of arrays ``[n, 2]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not as of ``fit``, or one gives no molecule.
        """
        found = self._predict(X)
        if isinstance(self.classes_, list):
            return [of_all_classes(column[:, None]) for column in found.T]
        return of_all_classes(found)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class (of ``levels`` the median), ``[n]``, or 0 or 1 of every target, ``[n, T]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not as of ``fit``, or one gives no molecule.
        """
        found = self._predict(X)
        if isinstance(self.classes_, list):
            return (found > 0.5).astype(int)
        return np.asarray(self.classes_[decided(of_all_classes(found), self.levels is not None)])

    def score(self, X: Any, y: ArrayLike) -> float:
        """The fraction of rows all whose known classes are predicted right; NaN if no class is known.

        Columns that are called as those of the training may have another order. Scorers of scikit-learn take
        no missing classes; this does, and rows without any don't count.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not as of ``fit``, one gives no molecule, or y has another length,
                another number of targets or another kind of classes than ``fit`` was given.
        """
        check_is_fitted(self)
        true = self._read(self._true(X, y))
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
        classes, number = state["classes"], len(self._fitted.about["target_names"])
        several = number if number > 1 else len(self._fitted.about.get("classes", "01"))
        if len(classes) != several:
            raise ValueError(f"classes: expected {several}, got {len(classes)}")
        expected = [[0, 1]] * number if number > 1 else numbered(classes)[0].tolist()
        if self._fitted.about["task"] == "ordinal":
            expected = list(self.levels or ())
        if classes != expected:
            raise ValueError(f"classes: expected {expected}, got {classes}")
        self.classes_ = list(np.array(classes)) if number > 1 else np.array(classes)
