from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from wlkernelnn.bench.harness import timing


class Clock:
    """Time that only workers spend, and who spent it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls = ""

    def worker(self, name: str, seconds: float, first: float = 0.0) -> Callable[[], None]:
        def work() -> None:
            self.now += seconds if name in self.calls else first or seconds
            self.calls += name

        return work


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock.now)
    return clock


def test_races_take_turns_and_rates_by_work(clock: Clock) -> None:
    a, b = clock.worker("a", 0.5), clock.worker("b", 2.0)
    rates = timing.race([a, b], [10.0, 20.0], rounds=3, min_seconds=1.5)
    # Two calls of each find out that a needs three calls to fill a turn.
    assert clock.calls == "aabb" + 3 * "aaab"
    np.testing.assert_allclose(rates, [[20.0] * 3, [10.0] * 3])


def test_a_first_call_that_compiles_fills_turns_as_others_do(clock: Clock) -> None:
    a, b = clock.worker("a", 0.5, first=12.0), clock.worker("b", 100.0)
    ours, _ = timing.race([a, b], [10.0, 10.0], rounds=2, min_seconds=1.5)
    # A first call of a hundred seconds is work, and has no second.
    assert clock.calls == "aab" + 2 * "aaab"
    np.testing.assert_allclose(ours, [20.0] * 2)


def test_settings_of_torch_are_put_back() -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with timing.torch_settings(threads + 1, "medium"):
        assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads + 1, "medium")
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads, precision)


of_proc = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="the system has no /proc")
SIZE = 80_000_000


@of_proc
def test_only_what_the_call_holds_counts() -> None:
    # The array that is there before the call does not count, its copy does.
    used = timing._measure(np.copy, lambda size: (np.ones(size),), (SIZE // 8,))
    assert 0.9 * SIZE < used.peak < 1.5 * SIZE
    assert 0 < used.seconds < 60


@of_proc
def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    def fill(size: int) -> None:
        np.memmap(tmp_path / "file", np.uint8, "w+", shape=size)[:] = 1

    assert timing._measure(fill, lambda size: (size,), (SIZE // 4,)).peak < SIZE / 10


@of_proc
def test_a_call_has_a_process_of_its_own(tmp_path: Path) -> None:
    used = timing.usage(os.system, tuple, [f"echo $PPID > {tmp_path / 'process'}"])
    assert int((tmp_path / "process").read_text()) != os.getpid()
    assert used.seconds > 0
