"""Deviations and quantiles of new measurements from what networks predict, fitted to the validation part."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from wlkernelnn.training.folder import ESTIMATOR, REPORT
from wlkernelnn.utils.files import json_text, read_json, read_sealed, understood, write_sealed

#: Fewer validation values of a target say too little.
LEAST_VALUES = 10
# In a run folder.
FILE, FORMAT = "recalibration.json", "wlkernelnn.recalibration/1"
# The entry of a run's report, or of an estimator's file, that says whether it lies there.
NOTE = "recalibrated"
# Of the mean squared error: the least b², so that networks that agree by chance are not certain.
_LEAST_REST = 1e-3


@dataclass(frozen=True)
class Recalibration:
    r"""What the spread s of networks says of the deviation of a new measurement from their mean.

    .. math::
        \sigma^2 = a^2 s^2 + b^2

    With one network s is 0, and b the root mean squared error of the validation part; of networks that
    predict distributions s is the deviation of their mixture.

    Attributes:
        factor: a of each target, ``[T]``.
        rest: b of each target, in its unit, ``[T]``. Of a target with less than ``LEAST_VALUES`` validation
            values both are NaN, or 1 and 0 of networks that predict distributions.
        counts: Of each target, the validation values that they were fitted to, ``[T]``.
        networks: How many networks the spread is of.
        shift: What is added to each quantile, ``[T, Q]``, see :func:`conformal_shift`; ``None`` without any,
            0 of a target with less than ``LEAST_VALUES`` validation values.
    """

    factor: np.ndarray
    rest: np.ndarray
    counts: np.ndarray
    networks: int
    shift: np.ndarray | None = None

    @classmethod
    def fit(
        cls,
        target: ArrayLike,
        mean: ArrayLike,
        spread: ArrayLike,
        networks: int,
        quantiles: ArrayLike | None = None,
        levels: Sequence[float] = (),
        distributions: bool = False,
    ) -> Self | None:
        """Maximise the Gaussian likelihood of validation errors, for each target.

        Args:
            target: ``[n, T]``, NaN where one is missing.
            mean, spread: Mean and standard deviation over the networks, ``[n, T]``.
            networks: How many they are.
            quantiles, levels: What they predict at these levels, ``[n, T, Q]``, if they predict quantiles.
            distributions: Whether they predict distributions: then a target with too few values has theirs.

        Returns:
            ``None`` where no target has enough values.
        """
        target, mean, spread = (np.asarray(values, np.float64) for values in (target, mean, spread))
        known = ~np.isnan(target) & np.isfinite(mean) & np.isfinite(spread)
        counts = known.sum(axis=0)
        enough = counts >= LEAST_VALUES
        if not enough.any():
            return None
        few = (1.0, 0.0) if distributions else (np.nan, np.nan)
        both = [
            _fit((target - mean)[rows, t], spread[rows, t]) if enough[t] else few
            for t, rows in enumerate(known.T)
        ]
        factor, rest = np.transpose(both)
        shift = None
        if quantiles is not None:
            shift = np.where(enough[:, None], conformal_shift(target, quantiles, levels), 0.0)
        return cls(factor, rest, counts, networks, shift)

    def without(self, target_names: Sequence[str]) -> str:
        """Says which targets have no deviations, or the networks' own; nothing if all are fitted."""
        counts = zip(target_names, self.counts, strict=True)
        some = ", ".join(f"{name} ({count:.0f})" for name, count in counts if count < LEAST_VALUES)
        own = "deviations and quantiles as the networks learned them"
        without = "no deviations" if np.isnan(self.factor[self.counts < LEAST_VALUES]).all() else own
        return f"{without} of {some}: at least {LEAST_VALUES} validation values are needed" if some else ""

    def std(self, spread: np.ndarray) -> np.ndarray:
        """The deviation of a new measurement, ``[n, T]``, from the spread ``[n, T]``."""
        return np.sqrt((self.factor * spread) ** 2 + self.rest**2)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write it into a run folder."""
        write_sealed(Path(directory) / FILE, json.loads(self.text()))

    def text(self) -> str:
        """As JSON."""
        names = ("factor", "rest", "counts", *(() if self.shift is None else ("shift",)))
        columns = {name: getattr(self, name).tolist() for name in names}
        return json_text({"format": FORMAT, "networks": self.networks, **columns}, indent=2)

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], networks: int, targets: int, quantiles: int = 0
    ) -> Self | None:
        """What a run folder holds, if it holds any.

        Raises:
            FileNotFoundError: It is missing, and another file says that there was one.
            ValueError: The file is damaged, or of another number of networks, targets or quantiles.
        """
        path = Path(directory) / FILE
        if not path.is_file():
            for other in (path.with_name(REPORT), path.with_name(ESTIMATOR)):
                said = read_json(other) if other.is_file() else None
                if isinstance(said, dict) and said.get(NOTE):
                    raise FileNotFoundError(
                        f"{path}: no such file; {other.name} says that there was one, without which "
                        "deviations and quantiles would be others"
                    )
            return None
        content = read_sealed(path)
        with understood(path, "a run writes it"):
            if content["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {content['format']!r}")
            if content["networks"] != networks:
                raise ValueError(f"is of {content['networks']} networks, and there are {networks}")
            columns = [np.array(content[name], np.float64) for name in ("factor", "rest", "counts")]
            if any(column.shape != (targets,) for column in columns):
                raise ValueError(f"expected numbers of {targets} targets")
            shift = np.array(content["shift"], np.float64) if quantiles else None
            if shift is not None and shift.shape != (targets, quantiles):
                raise ValueError(f"expected shifts of {quantiles} quantiles of {targets} targets")
            if shift is not None:  # earlier versions shifted by few values too
                shift[columns[2] < LEAST_VALUES] = 0.0
            return cls(columns[0], columns[1], columns[2].astype(int), networks, shift)


def conformal_shift(target: ArrayLike, quantiles: ArrayLike, levels: Sequence[float]) -> np.ndarray:
    r"""What to add to predicted quantiles so that the intervals between them keep their promise.

    Conformalized quantile regression, each side by itself (Romano et al. 2019, theorem 2): at a level
    :math:`\tau > 1/2` the :math:`\lceil (n + 1) \tau \rceil`-th smallest of the n errors
    :math:`y - q_\tau`, below 1/2 the same from the other side; where n is too small, the
    outermost error. 0 of the median.

    Args:
        target: Of molecules that no network was trained on, ``[n, T]``, NaN where one is missing.
        quantiles: ``[n, T, Q]``.
        levels: Q of them.

    Returns:
        ``[T, Q]``.
    """
    target, quantiles = np.asarray(target, np.float64), np.asarray(quantiles, np.float64)
    shift = np.zeros(quantiles.shape[1:])
    for t, known in enumerate(~np.isnan(target.T)):
        errors = np.sort(target[known, t, None] - quantiles[known, t], axis=0)
        for q, level in enumerate(levels):
            # 1e-9: (n + 1) τ may be a whole number but for rounding.
            place = (len(errors) + 1) * level
            rank = ceil(place - 1e-9) if level > 0.5 else floor(place + 1e-9)
            if level != 0.5 and len(errors):
                shift[t, q] = errors[min(max(rank, 1), len(errors)) - 1, q]
    return shift


def shifted(quantiles: np.ndarray, shift: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles ``[n, T, Q]`` after the shift ``[T, Q]``, in order around the median, which stays."""
    median = quantiles[..., [*levels].index(0.5), None]
    moved = quantiles + shift
    low, high = np.array(levels) < 0.5, np.array(levels) > 0.5
    moved = np.where(low, np.minimum(moved, median), np.where(high, np.maximum(moved, median), median))
    return np.sort(moved, axis=2)


def _fit(error: np.ndarray, spread: np.ndarray) -> tuple[float, float]:
    """a and b of one target, from errors ``[n]`` and spreads ``[n]``."""
    square, of_error = spread**2, float(np.mean(error**2))
    of_spread = float(square.mean())
    if not of_error or not of_spread:
        return 0.0, float(np.sqrt(of_error))
    # In units in which both are about 1: variance = u z + v.
    z, e = square / of_spread, error**2 / of_error

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        variance = x[0] * z + x[1]
        slope = (1 / variance - e / variance**2) / 2
        value = np.mean(np.log(variance) + e / variance) / 2
        return float(value), np.array([np.mean(slope * z), np.mean(slope)])

    # Not convex, so from several sides.
    found = [
        minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0, None), (_LEAST_REST, None)])
        for start in ((0.5, 0.5), (0.0, 1.0), (1.0, _LEAST_REST))
    ]
    u, v = min(found, key=lambda result: float(result.fun)).x
    return float(np.sqrt(u * of_error / of_spread)), float(np.sqrt(v * of_error))
