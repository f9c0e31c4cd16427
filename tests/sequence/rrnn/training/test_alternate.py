from __future__ import annotations

import pytest
import torch

from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import alternate


def test_tuples_and_scorer_take_turns() -> None:
    model = RRNN(3, 4, 2, norm="batch")
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    moved = []
    for epoch in range(5):
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        trained = alternate(model, epoch, 2)
        optimizer.zero_grad()
        model(torch.randn(2, 3, 3))[0].square().sum().backward()
        optimizer.step()
        changed = {
            n.split(".")[0] for n, value in model.named_parameters() if not torch.equal(value, before[n])
        }
        assert changed == {"lin", "norm", trained}
        moved.append(trained)
    assert moved == ["tuples", "tuples", "scorer", "scorer", "tuples"]


def test_bad_turns() -> None:
    with pytest.raises(ValueError, match="every counts epochs: at least 1, got 0"):
        alternate(RRNN(3, 4, 2), 0, 0)
