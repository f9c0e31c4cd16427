"""Time and peak memory of a call, in a process of its own."""

from __future__ import annotations

import ctypes
import multiprocessing
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INTERVAL = 0.01


@dataclass(frozen=True)
class Usage:
    """What a call took.

    Attributes:
        seconds: Wall time.
        peak: Bytes of memory beyond what was held before the call, at most; pages of mapped files, which the
            system can write out and drop at any time, do not count.
    """

    seconds: float
    peak: int


def usage(call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], *args: Any) -> Usage:
    """Run ``call(*prepare(*args))`` in a new process, and measure the call.

    Args:
        call, prepare: Functions at the top of a module.

    Raises:
        OSError: The system does not tell of its processes' memory in ``/proc``.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_measure, call, prepare, args).result()


def _measure(call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], args: Any) -> Usage:
    inputs = prepare(*args)
    with suppress(AttributeError):  # a C library other than glibc
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that is kept could be used unseen
    before = peak = _anonymous()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(_INTERVAL):
            peak = max(peak, _anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        call(*inputs)
        seconds = time.perf_counter() - start
        peak = max(peak, _anonymous())
    finally:
        done.set()
        watcher.join()
    return Usage(seconds, peak - before)


def _anonymous() -> int:
    """Bytes of this process's memory that no file stands behind."""
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024
