from __future__ import annotations

import pytest
import torch

from tests.inputs.strings import ptr_of
from wlkernelnn.sequence.layers.dropout import locked_dropout


@pytest.mark.parametrize("lengths", [[3, 0, 1, 4], [2, 2]], ids=str)
def test_masks_are_the_same_over_a_string(lengths: list[int]) -> None:
    ptr = ptr_of(lengths).to(torch.int16)  # any integers
    out = locked_dropout(torch.ones(sum(lengths), 200), ptr, 0.25)
    strings = [string for string in out.split(lengths) if len(string)]
    for string in strings:
        assert torch.equal(string, string[:1].expand_as(string))
    values, counts = out.unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0, 1 / 0.75]))
    assert 0.15 < counts[0] / out.numel() < 0.35
    assert not torch.equal(strings[0][0], strings[1][0])


def test_both_layouts_draw_the_same() -> None:
    x = torch.randn(3, 4, 5)
    torch.manual_seed(1)
    padded = locked_dropout(x, None, 0.5)
    torch.manual_seed(1)
    assert torch.equal(locked_dropout(x.view(12, 5), ptr_of([4, 4, 4]), 0.5), padded.view(12, 5))
    assert 0 < (padded == 0).sum() < padded.numel()
