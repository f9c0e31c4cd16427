from __future__ import annotations

import pytest
import torch

from wlkernelnn.blocks.compose import composed


@pytest.mark.parametrize(("compose", "expected"), [("mul", [3.0, 8.0]), ("add", [4.0, 6.0])])
def test_composed(compose: str, expected: list[float]) -> None:
    state, new = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert composed(state, new, compose).tolist() == expected
    out = torch.empty(2)
    assert composed(state, new, compose, out=out) is out
    assert out.tolist() == expected
    assert (state.tolist(), new.tolist()) == ([1, 2], [3, 4])
