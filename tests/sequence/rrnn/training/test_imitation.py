from __future__ import annotations

import pytest
import torch

from tests.checks.equations import randomize
from tests.inputs.strings import normal
from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import CELLS, imitation
from wlkernelnn.sequence.rrnn.search.pool import Pool

P = 4


def model_of(cell: str, norm: str | None = "layer") -> tuple[RRNN, torch.Tensor]:
    """A model that can grow a cell, and the leaves of three tokens."""
    target = CELLS[cell]
    rounds = target.ends[0], *(b - a for a, b in zip(target.ends, target.ends[1:], strict=False))
    model = RRNN(P, P, rounds, target.num_tuples, temperature=0.7, norm=norm)
    randomize(model)
    leaves = normal(3, target.num_leaves, P)
    leaves[:, -1] = 0
    return model, leaves


@pytest.mark.parametrize("norm", ["layer", "max", None])
@pytest.mark.parametrize("cell", CELLS)
def test_by_the_equation(cell: str, norm: str | None) -> None:
    """Candidate by candidate, of a pool that has all nodes of the cell but the last."""
    model, leaves = model_of(cell, norm)
    found = imitation(model, CELLS[cell], leaves)
    numbers = CELLS[cell].numbers(model.space)
    for n in range(len(leaves)):
        pool = Pool(model.space, model.tuples, leaves[n : n + 1])
        CELLS[cell].follow(pool, model.norm)
        pool.nodes.pop()
        score = (model.scorer(pool.candidates())[0] / 0.7).tolist()
        for k, number in enumerate(numbers):
            beside = torch.tensor([a for v, a in enumerate(score) if v not in numbers[:k]])
            assert float(found[n, k].detach()) == pytest.approx(float(beside.logsumexp(0)) - score[number])


def test_what_it_asks_for_is_what_the_search_finds() -> None:
    """A scorer that has learned it grows the cell, and one that has not does not."""
    torch.manual_seed(0)
    cell = CELLS["gru"]
    width = 16
    model = RRNN(width, width, 8, 3, hidden_channels=64, temperature=0.1, bias_std=1.0).eval()
    model.keep_trees = True
    x, state = torch.randn(2, 1, width), torch.randn(1, 2, width)
    leaves = torch.stack([x[:, 0], state[0], torch.zeros(2, width)], 1)

    def exact() -> int:
        model(x, state=state)
        return int((model.last_trees.numbers == torch.tensor(cell.numbers(model.space))).all(1).sum())

    assert exact() == 0
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100):
        loss = imitation(model, cell, leaves).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert imitation(model, cell, leaves).max() < 0.69  # each is more probable than all others together
    assert exact() == 2
