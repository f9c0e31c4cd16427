from __future__ import annotations

import pytest
import torch

from wlkernelnn.modes import evaluating


@pytest.mark.parametrize("fails", [False, True])
def test_every_part_has_its_mode_back(fails: bool) -> None:
    frozen = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5)).eval()
    module = torch.nn.ModuleList([frozen, torch.nn.Dropout(0.5)])
    module.training = True
    before = [part.training for part in module.modules()]
    try:
        with evaluating(module):
            assert not any(part.training for part in module.modules())
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert [part.training for part in module.modules()] == before
    assert len(set(before)) == 2
