from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.bench.harness import memory

if not Path("/proc/self/status").is_file():
    pytest.skip("the system has no /proc", allow_module_level=True)

SIZE = 200_000_000


def test_only_what_the_call_holds_counts() -> None:
    # The array that is there before the call does not count, its copy does.
    used = memory._measure(np.copy, lambda size: (np.ones(size),), (SIZE // 8,))
    assert 0.9 * SIZE < used.peak < 1.5 * SIZE
    assert 0 < used.seconds < 60


def test_pages_of_files_do_not_count(tmp_path: Path) -> None:
    def fill(size: int) -> None:
        np.memmap(tmp_path / "file", np.uint8, "w+", shape=size)[:] = 1

    assert memory._measure(fill, lambda size: (size,), (SIZE // 4,)).peak < SIZE / 10


def test_a_call_has_a_process_of_its_own(tmp_path: Path) -> None:
    used = memory.usage(os.system, tuple, [f"echo $PPID > {tmp_path / 'process'}"])
    assert int((tmp_path / "process").read_text()) != os.getpid()
    assert used.seconds > 0
