from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import normal
from wlkernelnn.sequence import RRNN, RRNNGRU
from wlkernelnn.sequence.rrnn import Leaf, Tree, gradient_constants, state_gradients
from wlkernelnn.sequence.rrnn.search.space import ACTIVATIONS
from wlkernelnn.sequence.rrnn.training.gradients import _SLOPES, _jacobians
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes

D, P = 3, 4


def grown(**options: Any) -> tuple[RRNN, Tensor]:
    torch.manual_seed(0)
    model = RRNN(D, P, **{"rounds": 3, "num_tuples": 2} | options)
    randomize(model)
    model.eval()
    model.keep_trees = True
    out, _ = model(normal(2, 5, D))
    return model, out.detach().flatten(0, 1)


def vectors_of(tree: Tree) -> list[Tensor]:
    if isinstance(tree, Leaf):
        return [tree.vector]
    return [tree.vector, *vectors_of(tree.left), *vectors_of(tree.right)]


@pytest.mark.parametrize("identity", [True, False])
def test_constants_by_walking_through_the_trees(identity: bool) -> None:
    model, out = grown(identity=identity)
    record = model.last_trees
    assert record is not None
    found = gradient_constants(model, out)
    matrices = [*model.tuples.weight.detach().flatten(0, 1), *([torch.eye(P).double()] * (2 * identity))]
    norms = [float(torch.linalg.svdvals(matrix)[0]) for matrix in matrices]
    assert found.c1 == pytest.approx(max(norms))
    assert found.c2 == 1.0
    trees = [record[token][0] for token in range(10)]
    vectors = [vector for tree in trees for vector in vectors_of(tree)]
    factors = [float((matrix @ vector).abs().max()) for matrix in matrices for vector in vectors]
    assert found.c3 == pytest.approx(max(1, *factors))
    assert found.c4 == pytest.approx(float(out.norm(dim=1).max()))
    assert found.c5 == pytest.approx(max(float(vector.abs().max()) for vector in vectors))
    bounds, left, right = [], 0, 0
    weight = torch.cat([model.tuples.weight.detach(), torch.eye(P).double().expand(2, 1, P, P)], 1)
    for tree in trees:
        nodes = internal_nodes(tree).values()
        bounds.append((len(nodes) + 1) ** (-1 / (3 * (math.floor(math.log2(len(nodes) + 1)) + 1))))
        for side, child in ((0, "right"), (1, "left")):
            sizes = [
                float((weight[1 - side, node.tuple_index] @ getattr(node, child).vector).abs().max())
                if node.operation == "mul"
                else 1.0
                for node in nodes
            ]
            left += side == 0 and max(sizes) >= bounds[-1]
            right += side == 1 and max(sizes) >= bounds[-1]
    assert found.bound == pytest.approx(min(bounds))
    assert (found.left, found.right) == (pytest.approx(left / 10), pytest.approx(right / 10))
    assert found.steep_activation
    assert found.large_matrix == (max(norms) >= min(bounds))


def test_few_conditions_of_theorem_8_hold_without_addition() -> None:
    """Small matrices, sigmoid alone and products of small vectors."""
    torch.manual_seed(0)
    model = RRNN(P, P, 3, 2, operations=("mul",), activations=("sigmoid",), identity=False, norm=None)
    with torch.no_grad():
        model.tuples.weight.mul_(0.1)
    model.eval()
    model.keep_trees = True
    out, _ = model(0.1 * torch.randn(2, 5, P))
    found = gradient_constants(model, out.detach().flatten(0, 1))
    assert found.c2 == 0.25
    assert found.vanishing
    assert not found.may_explode
    assert found.left == found.right == 0.0


def test_theorem_7_is_not_about_the_identity() -> None:
    model, out = grown()
    found = gradient_constants(model, out)
    assert min(found.c1, found.c2, found.c3) >= 1
    assert not found.vanishing
    assert found.may_explode


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slopes(name: str) -> None:
    v = torch.linspace(-5, 5, 1001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(ACTIVATIONS[name](v).sum(), v)
    assert float(slope.abs().max()) == pytest.approx(_SLOPES[name], rel=1e-4)


def test_needs_trees_and_gradients_of_all_tokens() -> None:
    model, out = grown()
    with pytest.raises(ValueError, match="gradients must be those of 10 tokens, got 9"):
        gradient_constants(model, out[1:])
    model.last_trees = None
    with pytest.raises(ValueError, match="set keep_trees"):
        gradient_constants(model, out)


# Without zeros and the identity: copies have equal scores, and which is chosen changes with every step.
@pytest.mark.parametrize(
    "model",
    [RRNN(D, P, (2, 1), 2, auxiliary=(1.0,), identity=False, norm="max"), RRNNGRU(D, P, 2)],
    ids=["rrnn", "rrnn_gru"],
)
@pytest.mark.parametrize("begins", [False, True], ids=["from_0", "from_a_state"])
def test_state_gradients_are_slopes(model: Any, begins: bool) -> None:
    """Differences of E_T when h_t is moved, for states that are carried by hand."""
    torch.manual_seed(0)
    randomize(model)
    model.train()
    x, direction = normal(2, 3, D), normal(P)
    first = normal(model.num_states, 2, P) if begins else None
    norms = state_gradients(model, x, lambda h: (h @ direction).sin().sum(), first)
    assert norms.shape == (3, 2)
    assert model.training
    with pytest.raises(TypeError):
        state_gradients(model, x, lambda h: None, first)  # type: ignore[arg-type, return-value]
    assert model.training
    model.eval()
    for t in range(3):
        _, state = model(x[:, : t + 1], state=first)

        def end(state: Tensor, t: int = t) -> Tensor:
            last = model(x[:, t + 1 :], state=state)[1] if t < 2 else state
            return (last[-1] @ direction).sin()

        slopes = torch.zeros_like(state)
        for place in range(state[:, 0].numel()):
            step = torch.zeros_like(state)
            m, p = divmod(place, P)
            step[m, :, p] = 1e-6
            slopes[m, :, p] = (end(state + step) - end(state - step)) / 2e-6
        torch.testing.assert_close(norms[t], slopes.square().sum((0, 2)).sqrt(), rtol=1e-5, atol=1e-8)


def test_derivatives_by_a_child_have_the_norm_of_the_other() -> None:
    model, _ = grown()
    record = model.last_trees
    sizes = torch.rand(len(record), record.leaves.size(1) + record.nodes.size(1), 2, 3)
    left, right = _jacobians(record, sizes)
    r, o, _, i, j = (part.tolist() for part in record.space.parts(record.numbers))
    products = 0
    for n in range(len(record)):
        for k in range(record.nodes.size(1)):
            if record.space.operations[o[n][k]] == "mul":
                products += 1
                assert left[n, k] == sizes[n, j[n][k], 1, r[n][k]]
                assert right[n, k] == sizes[n, i[n][k], 0, r[n][k]]
    assert products
