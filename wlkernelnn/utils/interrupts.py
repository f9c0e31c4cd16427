"""Ctrl-C and SIGTERM: both end a command in the same way, and wait while it starts processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """SIGTERM, with which clusters stop a job, is a ``KeyboardInterrupt``, as Ctrl-C is."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt("by SIGTERM")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Start processes: Ctrl-C and SIGTERM wait until all is in place, and the processes never get Ctrl-C.

    A terminal sends it to all, and this one ends the others. A process that is started by half would wait for
    the rest for ever.
    """
    waiting: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for each in (signal.SIGINT, signal.SIGTERM):
            handlers[each] = signal.signal(each, lambda number, _: waiting.append(number))
    masks = hasattr(signal, "pthread_sigmask")  # which processes inherit; Windows has none
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if masks else set()
    try:
        yield
    finally:
        if masks:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in waiting:
            signal.raise_signal(number)
