from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal
from wlkernelnn.sequence import RRNN, RRNNGRU
from wlkernelnn.sequence.rrnn import CELLS, Leaf, TreeLoss, isomorphic, tree_distance
from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.sequence.rrnn.trees.trees import tree_of

D, P = 3, 4


def read(model: TreeModel) -> Tensor:
    randomize(model)
    model.keep_trees = True
    out, _ = model(*end_to_end([normal(1, D), normal(0, D), normal(2, D)]))
    return out.square().sum() / 3


def target_of(model: RRNN, cell: str, leaves: Tensor) -> list[Tensor]:
    """The nodes of a target at the leaves ``[n, p]``, by its equations, each bounded as the model's."""
    (left, right), bias = model.tuples.weight.detach(), model.tuples.bias.detach()
    nodes: list[Tensor] = []

    def gate(r: int, x: Tensor, h: Tensor) -> Tensor:
        return left[r] @ x + right[r] @ h + bias[r]

    def node(value: Tensor) -> Tensor:
        nodes.append(value / max(1.0, float(value.square().mean().sqrt())))
        return nodes[-1]

    if cell == "lstm":
        x, c, h, _ = leaves
        f, i, o = (node(torch.sigmoid(gate(r, x, h))) for r in range(3))
        new = node(torch.tanh(gate(3, x, h)))
        kept, added = node(c * f), node(i * new)
        node(o * node(torch.tanh(node(kept + added))))
    else:
        x, h, _ = leaves
        r, z = (node(torch.sigmoid(gate(r, x, h))) for r in range(2))
        reset, rest = node(h * r), node(1 - z)
        new = node(torch.tanh(gate(2, x, reset)))
        kept, added = node(h * z), node(rest * new)
        node(kept + added)
    return nodes


@pytest.mark.parametrize(("cell", "rounds"), [("gru", 4), ("lstm", (4, 1))], ids=["gru", "lstm"])
def test_terms(cell: str, rounds: Any) -> None:
    torch.manual_seed(0)
    model = RRNN(D, P, rounds, 4, norm="max")
    loss = read(model)
    parts = TreeLoss(cell, (2.0, 0.3, 0.5, 0.01), max_margin=0.7)(loss, model, model.parameters())
    record, target = model.last_trees, CELLS[cell]
    distance = 0.0
    for token in range(3):
        names = [
            Leaf(name, vector) for name, vector in zip(record.leaf_names, record.leaves[token], strict=True)
        ]
        vectors = target_of(model, cell, record.leaves[token].detach())
        for tree, end in zip(record[token], target.ends, strict=True):
            wanted = tree_of(names, target.nodes[:end], vectors[:end])
            distance += float(min(tree_distance(tree, one).detach() for one in isomorphic(wanted)))
    margin = -sum(min(0.7, gap) / 0.7 for gap in record.gaps.flatten().tolist())
    norm = sum(float(parameter.square().sum().detach()) for parameter in model.parameters())
    assert float(parts.distance.detach()) == pytest.approx(distance / 3)
    assert float(parts.margin.detach()) == pytest.approx(margin / 3)
    assert float(parts.norm.detach()) == pytest.approx(norm)
    total = 2 * float(loss.detach()) + 0.3 * distance / 3 + 0.5 * margin / 3 + 0.01 * norm
    assert float(parts.total.detach()) == pytest.approx(total)


def test_gradients_do_not_go_through_the_target() -> None:
    """At a tree that is the target, the distance is least whatever the parameters do."""
    model = RRNN(D, P, 4, 3)
    loss = read(model)
    parts = TreeLoss(weights=(0.0, 1.0, 0.0, 0.0))(loss, model, [])
    assert parts.total == parts.distance
    (grad,) = torch.autograd.grad(parts.total, model.tuples.weight, retain_graph=True)
    assert grad.any()
    record = model.last_trees
    (by_nodes,) = torch.autograd.grad(parts.distance, record.nodes, retain_graph=True)
    (through,) = torch.autograd.grad(record.nodes, model.tuples.weight, by_nodes)
    torch.testing.assert_close(grad, through)


@pytest.mark.parametrize("norm", [None, "layer", "max", "batch"])
def test_the_target_has_distance_0_to_itself(norm: str | None) -> None:
    """Made by the model as its own nodes, with its norm: of all strings at once if that is over strings."""
    model = RRNN(P, P, 8, 3, norm=norm)
    randomize(model)
    model.cell = CELLS["gru"]
    model.keep_trees = True
    out, _ = model(normal(6, 1, P), None, normal(1, 6, P))
    before = {name: value.clone() for name, value in model.named_buffers()}
    parts = TreeLoss(weights=(0.0, 1.0, 0.0, 0.0))(out.sum(), model, [])
    assert float(parts.distance.detach()) == pytest.approx(0, abs=1e-9)
    for name, value in model.named_buffers():
        assert torch.equal(value, before[name]), name


def test_a_larger_margin_is_a_smaller_loss_up_to_its_bound() -> None:
    model = RRNNGRU(D, P)
    loss = read(model)
    gaps = model.last_trees.gaps
    small, large = (TreeLoss(weights=(0, 0, 1, 0), max_margin=m)(loss, model, []) for m in (1e-9, 1e9))
    assert float(small.total.detach()) == pytest.approx(-gaps.numel() / 3)
    assert float(large.total.detach()) == pytest.approx(-float(gaps.sum().detach()) / 3 / 1e9)
    (grad,) = torch.autograd.grad(small.total, gaps, retain_graph=True)
    assert not grad.any()


def test_training_with_all_terms_lowers_the_loss() -> None:
    torch.manual_seed(0)
    model, out, x = RRNNGRU(D, P), torch.nn.Linear(P, 2), torch.randn(8, 4, D)
    y = (x[..., 0].cumsum(1) > 0).long()
    model.keep_trees = True
    parameters = [*model.parameters(), *out.parameters()]
    optimizer, criterion = torch.optim.Adam(parameters, 0.05), TreeLoss(weights=(1.0, 0.1, 1e-3, 1e-4))
    totals = []
    for _ in range(5):
        scores = out(model(x)[0])
        task = torch.nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten(), reduction="sum") / 8
        parts = criterion(task, model, parameters)
        optimizer.zero_grad()
        parts.total.backward()
        optimizer.step()
        totals.append(float(parts.total.detach()))
    assert totals[-1] < 0.9 * totals[0]


def test_what_does_not_fit() -> None:
    loss, criterion = torch.zeros(()), TreeLoss()
    model = RRNN(D, P, 2)
    with pytest.raises(ValueError, match="TreeLoss needs trees: set keep_trees"):
        criterion(loss, model, [])
    for wrong, message in (
        (
            RRNN(D, P, (1, 1)),
            r"the target has 1 states and an auxiliary vector of zeros, got 2 and \(0\.0,\)",
        ),
        (RRNN(D, P, 1, auxiliary=(1.0,)), r"got 1 and \(1\.0,\)"),
        (RRNN(D, P, 1, 2), "the target needs 3 tuples and the identity, got 2 and it"),
        (RRNN(D, P, 1, identity=False), "the target needs 3 tuples and the identity, got 3 and no identity"),
    ):
        read(wrong)
        with pytest.raises(ValueError, match=message):
            criterion(loss, wrong, [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cell": "rnn"}, "cell must be one of gru, torch_gru, lstm, got 'rnn'"),
        (
            {"weights": (1, 1, 1)},
            r"weights must be four finite numbers that are not negative, got \(1, 1, 1\)",
        ),
        ({"weights": (1, 1, 1, -1)}, "weights must be four finite numbers that are not negative"),
        ({"max_margin": 0.0}, r"max_margin must be positive, got 0\.0"),
        ({"isomorphisms": "some"}, "isomorphisms must be one of exact, relaxed, expected, got 'some'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TreeLoss(**arguments)
