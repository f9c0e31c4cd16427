from __future__ import annotations

import pytest
import torch
import torch_geometric.nn
from torch.nn.parameter import is_lazy

from tests.strings import normal
from wlkernelnn.blocks.linear import Linear
from wlkernelnn.ops import products


@pytest.mark.parametrize("shape", [(3, 300), (70, 300), (2, 70, 300), (0, 300), (300,)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_is_the_linear_map(shape: tuple[int, ...], bias: bool) -> None:
    ours, theirs = Linear(300, 220, bias=bias), torch_geometric.nn.Linear(300, 220, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    x = normal(*shape, dtype=torch.float32)
    results = []
    for lin in (ours, theirs):
        given = x.clone().requires_grad_()
        out = lin(given)
        results.append((out, *torch.autograd.grad(out.square().sum(), [given, *lin.parameters()])))
    for came, expected in zip(*results, strict=True):
        torch.testing.assert_close(came, expected, rtol=1e-4, atol=1e-3)


def test_learns_its_width() -> None:
    lin = Linear(-1, 3)
    assert is_lazy(lin.weight)
    assert lin(normal(100, 5, dtype=torch.float32)).shape == (100, 3)
    assert lin.weight.shape == (3, 5)


def test_under_autocast_as_torch() -> None:
    lin, x = Linear(300, 220), normal(70, 300, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lin(x).dtype == torch.bfloat16


def test_a_bias_with_gaps_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_blas_is_fast", lambda: False)
    lin, x = Linear(130, 150), normal(300, 130, dtype=torch.float32)
    lin.bias = torch.nn.Parameter(torch.randn(150, 2)[:, 0])
    torch.testing.assert_close(lin(x), torch.nn.functional.linear(x, lin.weight, lin.bias))
