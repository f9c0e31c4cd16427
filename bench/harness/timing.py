"""Time of two ways to do the same work, turn by turn; time and peak memory of a call in its own process."""

from __future__ import annotations

import ctypes
import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

# A first call that takes as long as so many turns is work, not preparation such as compiling.
_LONG = 50
# Seconds between two looks at the memory of a process.
_INTERVAL = 0.01


def race(
    contestants: Sequence[Callable[[], object]],
    work: Sequence[float],
    *,
    rounds: int,
    min_seconds: float = 0.2,
) -> np.ndarray:
    """Time contestants in turn, after a turn of each that does not count: first, second, first, second, ….

    Args:
        contestants: Calls.
        work: Amount of work of one call of each, in any unit.
        rounds: Turns of each that count.
        min_seconds: A turn repeats its call for about so long.

    Returns:
        Work per second of every contestant in every round, ``[contestants, rounds]``.
    """
    calls = [_calls(contestant, min_seconds) for contestant in contestants]
    turns = list(zip(contestants, work, calls, strict=True))
    rates = [[amount * n / _seconds(contestant, n) for contestant, amount, n in turns] for _ in range(rounds)]
    return np.array(rates).T


def _seconds(call: Callable[[], object], calls: int) -> float:
    _wait_for_gpu()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    _wait_for_gpu()
    return time.perf_counter() - start


def _wait_for_gpu() -> None:
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


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


@dataclass(frozen=True)
class Usage:
    """Wall time of a call, and the most memory that it took."""

    seconds: float
    peak: int  # bytes beyond those held before, without pages of files, which the system can drop


def usage(call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], *args: Any) -> Usage:
    """Run ``call(*prepare(*args))``, functions of a module, in a new process, and measure the call."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure, call, prepare, args).result()


def _measure(call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], args: Any) -> Usage:
    inputs = prepare(*args)
    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that is kept could be used unseen
    before = peak = anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_INTERVAL):
            peak = max(peak, anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        result = call(*inputs)
        seconds = time.perf_counter() - start
        peak = max(peak, anonymous())  # with the result
        del result
    finally:
        done.set()
        watcher.join()
    return Usage(seconds, peak - before)


def anonymous(process: int | str = "self") -> int:
    """Bytes of a process's memory that no file stands behind; an OSError if it is gone, or without /proc."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))
