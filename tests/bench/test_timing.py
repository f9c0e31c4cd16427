from __future__ import annotations

import numpy as np
import pytest
import torch

from wlkernelnn.bench import timing


def test_compare_takes_turns_and_rates_by_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    calls: list[str] = []

    def worker(name: str, seconds: float):
        def work() -> None:
            nonlocal now
            now += seconds
            calls.append(name)

        return work

    monkeypatch.setattr(timing.time, "perf_counter", lambda: now)
    result = timing.compare(worker("a", 0.5), worker("b", 2.0), rounds=3, work=10.0, min_seconds=1.5)
    # Two calls of each find out that a needs three calls to fill a turn.
    assert "".join(calls) == "aabb" + 3 * "aaab"
    np.testing.assert_allclose(result.ours, [20.0] * 3)
    np.testing.assert_allclose(result.theirs, [5.0] * 3)
    np.testing.assert_allclose(result.ratios, [4.0] * 3)


def test_settings_of_torch_are_put_back() -> None:
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with timing.torch_settings(threads + 1, "medium"):
        assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads + 1, "medium")
    assert (torch.get_num_threads(), torch.get_float32_matmul_precision()) == (threads, precision)
