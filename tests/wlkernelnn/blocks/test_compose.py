from __future__ import annotations

import pytest
import torch

from wlkernelnn.blocks.compose import COMPOSE


@pytest.mark.parametrize(("compose", "expected"), [("mul", [3.0, 8.0]), ("add", [4.0, 6.0])])
def test_composed(compose: str, expected: list[float]) -> None:
    state, new = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    assert COMPOSE[compose](state, new).tolist() == expected
    out = torch.empty(2)
    assert COMPOSE[compose](state, new, out=out) is out
    assert out.tolist() == expected
    assert (state.tolist(), new.tolist()) == ([1, 2], [3, 4])
