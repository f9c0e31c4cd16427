"""The kernel machine of molecules: a Gaussian process on exact kernels, on descriptors, or on both."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from scipy.special import log_expit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.packed import check_packed
from wlkernelnn.datasets.splits.identity import replicate_groups
from wlkernelnn.kernels.transformer import fit_kernel
from wlkernelnn.utils.checks import check_one_of

from .classifier import LatentProcess, platt_scalings, probabilities
from .gaussian_process import GaussianProcess
from .known import Known, KnownGram, KnownMean, flat_molecules
from .parts import (
    CHOICES,
    about_training,
    check_columns,
    check_same_features,
    drawn_rows,
    kernels_of,
    memory,
    places,
    summed,
    targets_of,
)

logger = logging.getLogger("wlkernelnn")

MODELS = ("auto", "gp")
# "auto" is exact up to so many rows, if half of the memory has room for it; else it takes landmarks.
_MOST_EXACT, _LANDMARKS = 25_000, 4096
# Rows, drawn, on which kernels, descriptors and both are compared: Grams of nine parts are 72 n² bytes.
_CHOICE_ROWS = 2500
# Values of the kernel that are computed at once in predictions.
_AT_ONCE = 2**25


class MoleculeMachine(BaseEstimator):
    """A Gaussian process on the exact kernels of molecules, on their descriptors, or on both.

    The kernels are the six of :class:`~wlkernelnn.kernels.MoleculeKernel`, atom pairs in the coding
    ``"fcfp"`` and paths of 6 atoms in the coding ``"ogb"``, each with an amplitude of its own;
    :class:`~wlkernelnn.kernels.DescriptorKernel` is that of the descriptors. Kernels alone, descriptors alone
    and both are compared by their leave-one-out errors, in closed form, on at most 2,500 of the training
    molecules: the mean over the targets of RMSE / standard deviation, or of the log loss. The least one is
    taken. Of more than two classes each against all others is a target, as of
    :class:`GaussianProcessClassifier`.

    >>> from wlkernelnn.datasets import load_molecules
    >>> from wlkernelnn.machines import MoleculeMachine
    >>> smiles = ["C" * n + end for n in range(1, 11) for end in "ON"]
    >>> data = load_molecules(smiles, y=range(20), features="ogb+invariants+descriptors", cache=False)
    >>> machine = MoleculeMachine().fit(data)
    >>> mean, std = machine.predict(data[:3], return_std=True)

    Args:
        model: ``"gp"`` is exact: n³ / 3 operations and 16 n² bytes for each target (of more than two classes
            for each class). ``"auto"`` is too, up to
            25,000 molecules for whose 16 n² bytes half of the memory has room; else 4,096 molecules are
            landmarks, see :class:`GaussianProcess`.
        n_jobs: Threads that fill Grams (−1: one per core).
        random_state: Seed of what is drawn.

    Attributes:
        process_: The :class:`GaussianProcess`; of classes, of their log-odds.
        scaling_: Of classes, slope and intercept of the log-odds of each target ``[2, T]`` or class
            ``[2, C]``, as of :class:`GaussianProcessClassifier`; else ``None``.
        choice_: ``"kernels"``, ``"descriptors"`` or ``"both"``.
        errors_: The leave-one-out error of each; of more than two classes the mean over the classes, each
            against all others.
        about: ``features``, ``target_names``, ``task``, ``metric``, ``unit``, ``name``, ``descriptors``,
            ``rdkit`` and names of ``classes`` of the training data.
    """

    def __init__(
        self,
        model: str = "auto",
        *,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.model = model
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, data: PackedGraphs) -> Self:
        """Choose the parts of the kernel, and fit the process.

        Args:
            data: Molecules with features ``"ogb+invariants+descriptors"`` (or those with additions) and
                targets ``[n, T]``, NaN where one is missing.

        Raises:
            TypeError: ``data`` is not packed.
            ValueError: Other features, less than two molecules, a target without any value, or exact
                inference would not fit into memory.
        """
        check_packed("data", data)
        check_one_of("model", self.model, MODELS)
        check_columns(data.description.features)
        self.about = about_training(data, one_class=True)
        y = targets_of(data, self.about)
        num_landmarks = self.num_landmarks(*y.shape)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options: dict[str, Any] = {"n_jobs": self.n_jobs, "random_state": seed}

        train = data.compact()
        groups = replicate_groups(train)
        rows = drawn_rows(y, _CHOICE_ROWS, seed)
        parts = kernels_of("both")
        some = train if len(rows) == len(train) else train[rows]
        for part in parts:
            fit_kernel(part, some)
        flat = flat_molecules(parts, some)
        known = [Known.of(part, some, flat, self.n_jobs) for part in parts]
        grams = [KnownGram(each.gram()) for each in known]
        self.errors_: dict[str, float] = {}
        for choice in CHOICES:
            process = self.kind(summed([grams[i] for i in places(choice)]), **options)
            process.fit(np.arange(len(rows)), y[rows])
            self.errors_[choice] = self._error(process, y[rows], None if groups is None else groups[rows])
            if self.errors_[choice] == min(self.errors_.values()):
                self.choice_, self.process_ = choice, process
        self._tell(len(rows), len(train), num_landmarks)
        if len(rows) == len(train):
            self.process_.X_train_ = train
            self.process_.known_ = [known[i] for i in places(self.choice_)]
            chosen = [each.kernel for each in self.process_.known_]
            self.process_.kernel = summed(chosen)
            for target in self.process_.targets_:
                target.kernels = chosen
        else:
            del grams, known, process, self.process_
            kernel = summed(kernels_of(self.choice_))
            self.process_ = self.kind(kernel, num_landmarks=num_landmarks, **options).fit(train, y)
        self.scaling_: np.ndarray | None = None
        if self._classifies:
            self.scaling_ = platt_scalings(self.process_.leave_one_out(groups)[0], y)
        return self

    @property
    def _classifies(self) -> bool:
        return bool(self.about["task"] != "regression")

    @property
    def kind(self) -> type[GaussianProcess]:
        """The class of the process."""
        return LatentProcess if self._classifies else GaussianProcess

    def _error(self, process: GaussianProcess, y: np.ndarray, groups: np.ndarray | None) -> float:
        """The leave-one-out error of a process: the mean over its targets."""
        means, _ = process.leave_one_out(groups)
        if self._classifies:
            # −log of the probability of the class that a molecule has.
            slope, intercept = platt_scalings(means, y)
            errors = -log_expit((2 * y - 1) * (means * slope + intercept))
            return float(np.nanmean(errors, axis=0).mean())
        errors = np.sqrt(np.nanmean((means - y) ** 2, axis=0))
        return float(np.mean(errors / [target.scale or 1.0 for target in process.targets_]))

    def leave_one_out(self) -> np.ndarray:
        """What all other training molecules predict for each, NaN where it has no target; as :meth:`predict`.

        Replicates of a molecule are left out together.

        Raises:
            NotFittedError: ``fit`` has not been called.
        """
        check_is_fitted(self)
        self._factorize()
        return self._values(self.process_.leave_one_out(replicate_groups(self.process_.X_train_))[0])

    def _values(self, means: np.ndarray) -> np.ndarray:
        """Values or probabilities, from the means of the process."""
        if self.scaling_ is None:
            return means
        slope, intercept = self.scaling_
        return probabilities(means * slope + intercept, self.about["task"] == "multiclass")

    def _tell(self, compared: int, rows: int, num_landmarks: int | None) -> None:
        figures = ", ".join(f"{CHOICES[choice]} {error:.3f}" for choice, error in self.errors_.items())
        some = f" on {compared:,} of {rows:,} molecules, drawn" if compared < rows else ""
        logger.info(
            f"kernel machine on {CHOICES[self.choice_]}: the least leave-one-out error{some} ({figures})"
        )
        if num_landmarks is not None and num_landmarks < rows:
            logger.info(f"{rows:,} molecules: {num_landmarks:,} of them, drawn, are landmarks")

    def num_landmarks(self, rows: int, targets: int) -> int | None:
        """How many landmarks so many training molecules and targets take; ``None``: the machine is exact.

        Raises:
            ValueError: It would not fit into memory.
        """
        there = memory()
        exact, approximate = 16 * rows**2 * targets, 16 * rows * min(rows, _LANDMARKS) * targets
        is_exact = self.model == "gp" or (rows <= _MOST_EXACT and (there is None or exact <= there / 2))
        needed = exact if is_exact else approximate
        if there is not None and needed > there:
            landmarks = f"model='auto', which has {_LANDMARKS:,} landmarks, or " if is_exact else ""
            raise ValueError(
                f"model={self.model!r} needs about {needed / 1e9:,.0f} GB for {rows:,} molecules and "
                f"{targets} target(s), and this machine has {there / 1e9:,.0f} GB: take {landmarks}"
                "model='linear', which counts substructures in seconds"
            )
        return None if is_exact else _LANDMARKS

    def predict(self, data: PackedGraphs, return_std: bool = False) -> Any:
        """Values in the unit of the targets, or probabilities of class 1, float64 ``[len(data), T]``; of more
        than two classes the probability of each, ``[len(data), C]``.

        Args:
            data: Molecules with the features of the training.
            return_std: Also give the standard deviation of a new measurement, in the same shape; classes have
                none.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: ``data`` have other features, or ``return_std`` is set for classes.
        """
        self._check(data)
        process: Any = self.process_
        if return_std:
            if self._classifies:
                raise ValueError("return_std: classes have probabilities and no standard deviations")
            self._factorize()
            mean, std = self._in_blocks(data, lambda some: process.predict(some, return_std=True))
            return mean, std
        return self._in_blocks(data, lambda some: (self._values(process.predict(some)),))[0]

    def nearest(self, data: PackedGraphs) -> tuple[np.ndarray, np.ndarray]:
        """How near the nearest training molecule is, and which it is.

        Args:
            data: Molecules with the features of the training.

        Returns:
            The largest :meth:`similarity` with a training molecule, float64 ``[len(data)]`` from 0 to 1; and
            ``row`` of that molecule, int64 ``[len(data)]``.

        Raises:
            NotFittedError, ValueError: As :meth:`predict`.
        """
        self._check(data)
        row, known = self.process_.X_train_.row.numpy(), self._counted()

        def of(some: PackedGraphs) -> tuple[np.ndarray, np.ndarray]:
            values = self._similarity(some, known)
            best = values.argmax(axis=1)
            return values[np.arange(len(best)), best], row[best]

        similarity, rows = self._in_blocks(data, of)
        return similarity, rows

    def similarity(self, data: PackedGraphs) -> np.ndarray:
        """The mean of the eight kernels of counts with each training molecule, float64 ``[len(data), n]``.

        Raises:
            NotFittedError, ValueError: As :meth:`predict`.
        """
        self._check(data)
        return self._similarity(data, self._counted())

    def _counted(self) -> Sequence[Known]:
        """The training molecules as the eight kernels count them."""
        parts, train = kernels_of("kernels"), self.process_.X_train_
        if self.choice_ == "descriptors" or self.process_.landmarks_ is not None:
            flat = flat_molecules(parts, train)
            return [Known.of(part, train, flat, self.n_jobs) for part in parts]
        return self.process_.known_[: len(parts)]

    def _similarity(self, data: PackedGraphs, known: Sequence[Known]) -> np.ndarray:
        flat = flat_molecules([each.kernel for each in known], data)
        values = np.zeros((len(data), len(self.process_.X_train_)))
        for each in known:
            for rows, columns, block in each.others(data, flat):
                values[rows, columns] += block / len(known)
        return values

    def _in_blocks(
        self, data: PackedGraphs, compute: Callable[[PackedGraphs], tuple[np.ndarray, ...]]
    ) -> list[np.ndarray]:
        size = max(1, _AT_ONCE // len(self.process_.X_train_))
        blocks = [compute(data[i : i + size]) for i in range(0, max(1, len(data)), size)]
        return [np.concatenate(block) for block in zip(*blocks, strict=True)]

    def _factorize(self) -> None:
        """Factors are not saved: they are made when deviations are asked for."""
        means = [target.posterior for target in self.process_.targets_]
        if isinstance(means[0], KnownMean):
            if self.process_.landmarks_ is not None:
                self.process_.count(self.process_.X_train_)
            self.process_._find_posteriors()
            for target, mean in zip(self.process_.targets_, means, strict=True):
                target.posterior.alpha = mean.alpha

    def _check(self, data: PackedGraphs) -> None:
        check_is_fitted(self)
        check_same_features(data, self.about["features"])

    @property
    def scale_(self) -> np.ndarray:
        """Standard deviation of the training targets, ``[T]``; 1 of classes, whose log-odds are explained."""
        if self._classifies:
            return np.ones(self.process_.n_targets_)
        return np.array([target.scale for target in self.process_.targets_])

    @property
    def num_parameters(self) -> int:
        """Hyper-parameters: an amplitude of each part, and the noise, of each target."""
        return sum(len(target.amplitudes) + 1 for target in self.process_.targets_)
