"""Timing two ways to do the same work, turn by turn."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

# A first call that takes so many turns' time is not all preparation, such as compiling: there is no second to
# find out.
_LONG = 50


@dataclass(frozen=True)
class Comparison:
    """Rates of two contestants, round by round.

    Attributes:
        ours, theirs: Work per second in every round.
    """

    ours: np.ndarray
    theirs: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        """How many times faster ours was in every round: neighbours in time, so that load hits both."""
        return self.ours / self.theirs


def compare(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    rounds: int,
    work: float = 1.0,
    min_seconds: float = 0.2,
) -> Comparison:
    """Time two contestants in turn: ours, theirs, ours, theirs, ….

    A first turn of each, which also finds out how often to call a fast one, does not count.

    Args:
        ours, theirs: What to time.
        rounds: Turns of each that count.
        work: What one call does, in any unit.
        min_seconds: A turn calls its contestant until it has (about) taken this long.
    """
    return Comparison(*race([ours, theirs], [work, work], rounds=rounds, min_seconds=min_seconds))


def race(
    contestants: Sequence[Callable[[], object]],
    work: Sequence[float],
    *,
    rounds: int,
    min_seconds: float = 0.2,
) -> np.ndarray:
    """Time any number of contestants in turn, as :func:`compare` does two.

    Args:
        contestants: What to time.
        work: What one call of each does, in any unit.
        rounds: Turns of each that count.
        min_seconds: A turn calls its contestant until it has (about) taken this long.

    Returns:
        Work per second of every contestant in every round, ``[contestants, rounds]``.
    """
    calls = [_calls(contestant, min_seconds) for contestant in contestants]
    turns = list(zip(contestants, work, calls, strict=True))
    rates = [[amount * n / _seconds(contestant, n) for contestant, amount, n in turns] for _ in range(rounds)]
    return np.array(rates).T


def _seconds(call: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - start


def _calls(call: Callable[[], object], min_seconds: float) -> int:
    first = _seconds(call, 1)  # fills caches, starts pools of threads and processes
    if first > _LONG * min_seconds:
        return 1
    return max(1, math.ceil(min_seconds / _seconds(call, 1)))


@contextmanager
def torch_settings(threads: int, matmul_precision: str = "highest") -> Iterator[None]:
    """Run a block with so many threads and this precision of float32 matrix products."""
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision(matmul_precision)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])
