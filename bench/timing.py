"""Timing two ways to do the same work, turn by turn, and saying on what machine."""

from __future__ import annotations

import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

# A first call that takes so many turns' time is not all preparation: there is no second to find out.
_LONG = 5


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


def environment(*more: str) -> dict[str, str]:
    """Processor, Python, and the versions of what is measured, ``more`` packages included."""
    packages = ("wlkernelnn", "torch", "torch-geometric", "numpy", "rdkit", "ogb", *more)
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def revision() -> str:
    """Git's name of the source that runs, with a ``+`` if it was changed since; or ``"not in git"``."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    try:
        # An installed package may lie in the checkout of another project.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "not in git"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
