from __future__ import annotations

import pytest
import torch

from wlkernelnn.activation import activation, is_random

INPLACE = torch.nn.ReLU(inplace=True)


def test_by_name_or_as_it_is() -> None:
    own = torch.nn.PReLU()
    assert activation(own) is own
    assert isinstance(activation("tanh"), torch.nn.Tanh)
    assert isinstance(activation(None), torch.nn.Identity)
    assert activation(torch.tanh) is torch.tanh  # type: ignore[arg-type]


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
