"""Checks of arguments that all parts share."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor


def check_count(name: str, value: object, least: int = 1) -> int:
    """Refuse a value that is not an integer of at least ``least``; ``True`` is not one."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def check_finite(name: str, value: object) -> None:
    """Refuse a value that is not a finite number."""
    if not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")


def check_dropout(value: object, name: str = "dropout") -> None:
    """Refuse a value outside [0, 1): a layer that drops everything learns nothing."""
    if not is_fraction(value) or value == 1:
        raise ValueError(f"{name} must be in [0, 1), got {value!r}")


def check_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Refuse a value that is not one of ``known``."""
    if value not in [*known]:  # a list: values that cannot be hashed are compared too
        raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def check_switch(name: str, value: object) -> None:
    """Refuse what is neither true nor false, such as the word "False", which Python takes for true."""
    if value not in (True, False):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def repeated(names: Sequence[str]) -> list[str]:
    """The names that occur more than once, sorted."""
    return sorted({name for name in names if names.count(name) > 1})


def plain(value: Any) -> Any:
    """The number itself of one of numpy's, which neither JSON nor a checkpoint of weights alone may hold.

    Of a mapping, list or tuple a new one (a tuple becomes a list) whose values are such.
    """
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def not_finite(tensors: Mapping[str, Tensor]) -> str:
    """The name of a tensor with a NaN or an infinity; nothing if all are finite."""
    return next((name for name, value in tensors.items() if not bool(value.isfinite().all())), "")


class NotFiniteError(ValueError):
    """A model predicts values that are not finite, of the items at :attr:`positions`."""

    def __init__(self, message: str, positions: np.ndarray) -> None:
        super().__init__(message)
        self.positions = positions


def check_predictions(values: np.ndarray, what: str = "graphs") -> None:
    """Refuse predictions ``[n, …]`` with a NaN or an infinity.

    Raises:
        NotFiniteError: One has some.
    """
    fine = np.isfinite(values).all(axis=tuple(range(1, values.ndim)))
    if not fine.all():
        wrong = np.flatnonzero(~fine)
        raise NotFiniteError(
            f"the model predicts values that are not finite numbers for {len(wrong):,} of {len(values):,} "
            f"{what}, first number {wrong[0] + 1:,}: its weights are too large, its training "
            "diverged, or what it reads is far outside of what it was trained on",
            wrong,
        )


def check_widths(in_channels: int | tuple[int, int], out_channels: int) -> None:
    """Refuse widths of a layer that cannot be."""
    if isinstance(in_channels, tuple) and len(in_channels) != 2:
        raise ValueError(
            f"in_channels must be one width, or two for sources and targets, got {in_channels!r}"
        )
    for width in in_channels if isinstance(in_channels, tuple) else (in_channels,):
        if isinstance(width, bool) or not isinstance(width, Integral) or (width < 1 and width != -1):
            raise ValueError(
                f"in_channels must be an integer of at least 1, or -1 for lazy, got {in_channels!r}"
            )
    check_count("out_channels", out_channels)


def is_fraction(value: object) -> bool:
    """Whether a value is a number from 0 to 1; ``True`` is not one."""
    return isinstance(value, Real) and not isinstance(value, bool) and 0.0 <= float(value) <= 1.0


def holds_integers(values: Tensor) -> bool:
    """Whether a tensor holds integers; ``bool`` does not count."""
    import torch  # the command line checks options without it

    return not (values.is_floating_point() or values.is_complex() or values.dtype == torch.bool)


def unmasked(values: Any) -> Any:
    """A masked array of numpy with ``None`` where it hides a value; other values as they are."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    shown = values.data.astype(object)
    shown[np.ma.getmaskarray(values)] = None
    return shown


def check_unmasked(values: Any, name: str = "values") -> None:
    """Refuse a masked array of numpy that hides values, where every value is read."""
    if np.ma.is_masked(values):
        place = np.argwhere(np.ma.getmaskarray(values))[0].tolist()
        raise ValueError(f"{name}: a masked array hides the value at {place}: leave out what it hides first")


def checked_weights(sample_weight: ArrayLike | None, length: int) -> np.ndarray:
    """Sample weights as float64 ``[length]``; ``None``: all rows count alike.

    Raises:
        ValueError: They are not as many as rows, one is negative or not finite, or all are 0.
    """
    if sample_weight is None:
        return np.ones(length)
    weight = np.asarray(unmasked(sample_weight), dtype=np.float64)
    if weight.shape != (length,):
        raise ValueError(f"sample_weight must be [{length}], as long as X, got {[*weight.shape]}")
    if len(wrong := np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))):
        raise ValueError(f"sample_weight: row {wrong[0]} has {weight[wrong[0]]}, expected 0 or more")
    if not weight.any():
        raise ValueError("sample_weight: all rows have 0, expected one at least that counts")
    return weight


def weights_of(weight: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights of the rows of each target, of mean 1: priors and penalties are of rows that count once.

    And the means that they were divided by.

    Args:
        weight: Positive numbers ``[n]``, see :func:`checked_weights`.
        y: Targets ``[n, T]``, NaN where one is missing: such a row is in no mean.

    Returns:
        ``[n, T]``, ``[T]``.
    """
    means = np.array([weight[~np.isnan(column)].mean() for column in y.T])
    return weight[:, None] / means, means
