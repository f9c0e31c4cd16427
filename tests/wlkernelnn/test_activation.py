from __future__ import annotations

from typing import Any

import pytest
import torch

from wlkernelnn import WLKernelConv
from wlkernelnn.activation import activation, is_random

INPLACE = torch.nn.ReLU(inplace=True)


def test_by_name_or_as_it_is() -> None:
    own = torch.nn.PReLU()
    assert activation(own) is own
    assert isinstance(activation("tanh"), torch.nn.Tanh)
    assert isinstance(activation(None), torch.nn.Identity)
    function = activation(torch.tanh)
    assert function(torch.ones(1)) == torch.tanh(torch.ones(1))
    assert "tanh" in repr(function)
    assert not is_random(function)


@pytest.mark.parametrize("act", [torch.nn.ReLU, 3], ids=["class", "number"])
def test_nothing_else(act: Any) -> None:
    with pytest.raises(ValueError, match="act must be a name, a module, a function or None, got"):
        activation(act)


def test_functions_in_layers() -> None:
    x, edges, types = torch.randn(3, 4), torch.tensor([[0, 1], [1, 2]]), torch.tensor([0, 2])
    torch.manual_seed(0)
    layer = WLKernelConv(4, 6, num_edge_types=3, act=torch.tanh)  # type: ignore[arg-type]
    torch.manual_seed(0)
    named = WLKernelConv(4, 6, num_edge_types=3, act="tanh")
    torch.testing.assert_close(layer(x, edges, edge_type=types), named(x, edges, edge_type=types))


@pytest.mark.parametrize("act", [INPLACE, torch.nn.Sequential(torch.nn.Tanh(), INPLACE)], ids=["all", "part"])
def test_nothing_works_in_place(act: torch.nn.Module) -> None:
    with pytest.raises(ValueError, match=r"(?s)act must leave its input as it is, got .*inplace=True"):
        activation(act)


@pytest.mark.parametrize(
    "act", [torch.nn.RReLU(), torch.nn.Dropout(0.5), torch.nn.AlphaDropout(0.5)], ids=repr
)
def test_random_ones_in_training(act: torch.nn.Module) -> None:
    assert is_random(act)
    assert is_random(torch.nn.Sequential(torch.nn.Tanh(), act))
    assert not is_random(act.eval())
    assert not is_random(torch.nn.Tanh())
