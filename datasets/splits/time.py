"""Splits by time: what is known today is learned from, and newer molecules are tested on."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number

import numpy as np
import pandas as pd

from .parts import Sizes, SplitIndex, check_sizes, named, tell_sizes


def time_split(times: Sequence[object], sizes: Sizes = (0.8, 0.1, 0.1)) -> SplitIndex:
    """Split by time: the oldest to train on, the newest to test on.

    Rows of one time stay in one part, so that every test molecule is newer than all training molecules: the
    parts end at the change of time that is nearest to their sizes.

    Args:
        times: Of each row, all numbers (years, 20200131), or all dates in ISO 8601 (2020-01-31, with a time
            of day or without), as text or as ``datetime``.
        sizes: Fractions of train, validation and test.

    Returns:
        As :func:`random_split`; logs a warning of parts far from their sizes.

    Raises:
        ValueError: A time that cannot be read; names its data row. Sizes as :func:`random_split`.
    """
    check_sizes(sizes)
    rank = ranks_of(times)
    order = np.argsort(rank, kind="stable")
    ends = np.concatenate([[0], np.flatnonzero(np.diff(rank[order])) + 1, [len(order)]])
    train, valid, test = (int(size > 0) for size in sizes)
    cause = f"there are {len(ends) - 1:,} different times, and rows of one time are not split"
    if len(ends) - 1 < train + valid + test:
        raise ValueError(f"the time split has an empty part: {cause}")
    first = _nearest(ends, sizes[0] * len(order), train, len(ends) - valid - test)
    second = _nearest(ends, (sizes[0] + sizes[1]) * len(order), first + valid, len(ends) - test)
    parts = named(np.split(order, ends[[first, second]]), sizes)
    tell_sizes(parts, sizes, "time", cause)
    return parts


def _nearest(ends: np.ndarray, wanted: float, begin: int, stop: int) -> int:
    """Which of ``ends[begin:stop]`` is nearest to a number."""
    return begin + int(np.abs(ends[begin:stop] - wanted).argmin())


def ranks_of(times: Sequence[object], rows: Sequence[int] | None = None) -> np.ndarray:
    """The place of each time in the order of all different ones, int64 ``[n]``; raises as
    :func:`time_split`. Messages name ``rows``, counted from 0; default the positions.
    """
    column = pd.Series(list(times), dtype=object)
    # pandas would read missing dates as numbers too.
    numbers = pd.to_numeric(column.map(lambda value: value if _may_be_number(value) else None), "coerce")
    dates = pd.to_datetime(column.map(_date_text), format="ISO8601", errors="coerce", utc=True)
    best, other = sorted((numbers, dates), key=lambda read: int(read.isna().sum()))
    if len(unread := np.flatnonzero(best.isna() | np.isinf(numbers))):
        expected, names = (
            "a number or a date such as 2020-01-31",
            np.arange(len(column)) if rows is None else rows,
        )
        if len(mixed := np.flatnonzero(best.isna() & other.notna())) and best.notna().any():
            unread, read = mixed, int(np.flatnonzero(best.notna())[0])
            kind = "a number" if best is numbers else "a date"
            expected = f"{kind}, as {column[read]!r} of data row {names[read] + 1}"
        raise ValueError(
            f"data row {names[unread[0]] + 1}: expected {expected}, got {column[unread[0]]!r} "
            f"({len(unread):,} such rows)"
        )
    return np.unique(best.to_numpy(), return_inverse=True)[1]


def _may_be_number(value: object) -> bool:
    return isinstance(value, (str, Number)) and not isinstance(value, bool)


def _date_text(value: object) -> str | None:
    """A date as text, or nothing for what is none: pandas would read numbers as nanoseconds."""
    text = str(value).strip()
    return text if text.count("-") >= 2 else None
