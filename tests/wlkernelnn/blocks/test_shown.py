"""How layers print, where they are not as given; the texts themselves are tested with the layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from wlkernelnn import RandomWalkKernelConv


class Square(RandomWalkKernelConv):
    """A layer with a constructor of its own."""

    def __init__(self, width: int, **options: Any) -> None:
        super().__init__(width, width, **options)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (Square(4, walk_length=3), "Square(4, 4, walk_length=3, decay=1.0)"),
        (RandomWalkKernelConv(3, 5, act=torch.nn.PReLU(5)), "act=PReLU(num_parameters=5))"),
        (RandomWalkKernelConv(3, 5, act=torch.sin), "act=Function(sin))"),
        (RandomWalkKernelConv(3, 5, act=torch.nn.Identity()), "decay=1.0)"),
        (RandomWalkKernelConv(3, 5, all_lengths=True), "decay=1.0, all_lengths=True)"),
    ],
    ids=["derived", "module", "function", "the-default", "flag"],
)
def test_shown(layer: torch.nn.Module, text: str) -> None:
    assert repr(layer).endswith(text)
