from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import LENGTHS, end_to_end, normal, ptr_of
from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import Leaf, Node, Tree
from wlkernelnn.sequence.rrnn.search.naive import search_naive
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes
from wlkernelnn.testing import assert_layouts_agree, assert_resumes, assert_strings_independent

D, P = 3, 4


def made(*arguments: Any, **options: Any) -> RRNN:
    model = RRNN(D, P, *arguments, **options)
    randomize(model)
    return model.eval()


def some() -> list[Tensor]:
    return [normal(length, D) for length in LENGTHS["ragged"]]


def looped(model: RRNN, x: Tensor, how: str) -> Tensor:
    """h of one string, candidate by candidate; as many auxiliary vectors, tuples and states as there are."""
    h, outs = torch.zeros(model.num_states, 1, P).double(), []
    same = torch.eye(P).double().expand(2, 1, P, P)
    weight = torch.cat([model.tuples.weight, same], 1) if model.tuples.identity else model.tuples.weight
    constants = torch.tensor(model.auxiliary).double().view(1, -1, 1).expand(-1, -1, P)
    for token in model.lin(x):
        start = torch.cat([token.view(1, 1, P), h.transpose(0, 1), constants], 1)
        grown = search_naive(
            start, weight, model.tuples.biases(), model.space, model.scorer, model.ends[-1], how
        )
        h = torch.stack([grown.nodes[:, end - 1] for end in model.ends])
        outs.append(h[-1, 0])
    return torch.stack(outs)


@pytest.mark.parametrize("training", [False, True], ids=["hard", "softmax"])
@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 2, "norm": "max"},
        {"rounds": 2, "norm": None},
        {"rounds": (1, 2), "auxiliary": (1.0,), "identity": False, "num_tuples": 2, "norm": "max"},
    ],
    ids=["one_state", "no_norm", "two_states"],
)
def test_it_is_a_search_at_every_token(options: dict[str, Any], training: bool) -> None:
    model = made(**options, activations=("tanh", "identity")).train(training)
    strings = [normal(1, D), normal(3, D)]
    out, _ = model(*end_to_end(strings))
    expected = torch.cat([looped(model, string, "softmax" if training else "hard") for string in strings])
    torch.testing.assert_close(out, expected)
    parameters = [p for name, p in model.named_parameters() if training or "scorer" not in name]
    found, wanted = (
        torch.autograd.grad(total.pow(3).sum(), parameters, materialize_grads=True)
        for total in (out, expected)
    )
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("norm", "keep_trees"), [("layer", False), ("max", False), ("batch", True)])
def test_laws_of_several_states(norm: str, keep_trees: bool) -> None:
    model = made((2, 1, 2), auxiliary=(0.0, 1.0), norm=norm)
    model.keep_trees = keep_trees
    assert_layouts_agree(model, normal(3, 4, D))
    assert_resumes(model, some(), [1, 0, 1, 2, 0])
    assert_strings_independent(model, some())


def value_of(tree: Tree, model: RRNN) -> Tensor:
    """The vector of a tree, computed again from its leaves."""
    if isinstance(tree, Leaf):
        return tree.vector
    left, right = value_of(tree.left, model), value_of(tree.right, model)
    one, other = (
        model.tuples.project(left)[0, tree.tuple_index],
        model.tuples.project(right)[1, tree.tuple_index],
    )
    both = one + other if tree.operation == "add" else one * other
    both = both + model.tuples.biases()[tree.tuple_index]
    return {"sigmoid": torch.sigmoid(both), "tanh": torch.tanh(both), "one_minus": 1 - both}.get(
        tree.activation, both
    )


def test_trees_are_those_that_were_grown() -> None:
    model, (x, ptr) = made((3, 2), norm=None), end_to_end(some())
    assert model(x, ptr)[0].requires_grad
    assert model.last_trees is None
    model.keep_trees = True
    out, state = model(x, ptr)
    record = model.last_trees
    assert record is not None
    assert repr(record) == "Record(11 tokens, 2 trees each)"
    assert len(record) == 11
    assert record.num_strings == 5
    for token in range(11):
        first, second = record[token]
        assert isinstance(second, Node)
        torch.testing.assert_close(second.vector, out[token])
        for tree in (first, second):
            for node in internal_nodes(tree).values():
                torch.testing.assert_close(value_of(node, model), node.vector)
    names = {one.name: one for one in leaves(record[0])}
    assert names.keys() <= {"x", "h1", "h2", "0"}
    torch.testing.assert_close(record.leaves[:, 0], model.lin(x))
    torch.testing.assert_close(record.leaves[2, 2], out[1])  # h of the token before
    torch.testing.assert_close(state[0, 4], record[10][0].vector)
    assert copy.deepcopy(model).last_trees is None
    model(x[:0], ptr_of([0]))
    assert model.last_trees is None


def leaves(trees: tuple[Tree, ...]) -> list[Leaf]:
    found = []
    for tree in trees:
        found += [tree] if isinstance(tree, Leaf) else leaves((tree.left, tree.right))
    return found


def test_gaps_are_how_far_the_best_is_ahead() -> None:
    model = made(2)
    model.keep_trees = True
    model(normal(2, 3, D))
    gaps = model.last_trees.gaps
    assert gaps.shape == (6, 2)
    assert (gaps > 0).all()
    model.scorer.out.weight.data *= 3
    model(normal(2, 3, D))
    (grad,) = torch.autograd.grad(model.last_trees.gaps.sum(), model.scorer.out.weight)
    assert grad.any()


def test_training_is_soft_and_inference_is_hard() -> None:
    soft, through = (
        RRNN(D, P, 3, choice=choice, temperature=0.5) for choice in ("softmax", "straight_through")
    )
    through.load_state_dict(soft.state_dict())
    x = torch.randn(4, 5, D)
    hard = soft.eval()(x)[0]
    assert torch.equal(through.eval()(x)[0], hard)
    torch.testing.assert_close(through.train()(x)[0], hard)
    assert not torch.allclose(soft.train()(x)[0], hard, atol=1e-3)
    for model in (soft, through):
        model(x)[0].pow(3).sum().backward()
        assert all(parameter.grad.any() for parameter in model.parameters())


def test_it_learns() -> None:
    """To say whether more of the bits so far were 1, of which a single tree knows nothing."""
    torch.manual_seed(1)
    model, out = RRNN(1, 6, 2, 2, hidden_channels=8), torch.nn.Linear(6, 1)
    x = torch.randint(0, 2, (64, 4, 1)) * 2.0 - 1
    y = (x.cumsum(1) > 0).float()
    optimizer = torch.optim.Adam([*model.parameters(), *out.parameters()], 0.1)
    for _ in range(12):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out(model(x)[0]), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.35 < math.log(2)


def test_norms_keep_long_strings_finite() -> None:
    x = torch.randn(3, 20, D)
    plain, bounded, layer, batch = (RRNN(D, P, 5, norm=norm) for norm in (None, "max", "layer", "batch"))
    for model in (bounded, layer, batch):
        out, _ = model(x)
        assert out.isfinite().all()
        out.square().sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert (bounded.eval()(x)[0].square().mean(-1) < 1 + 1e-6).all()
    assert layer.eval()(x)[0].isfinite().all()
    assert not plain.eval()(x)[0].isfinite().all()


def test_under_autocast_states_keep_their_precision() -> None:
    model, x = RRNN(D, P, 2), torch.randn(2, 3, D)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, state = model(x)
    out.sum().backward()
    assert out.dtype == state.dtype == torch.float32
    torch.testing.assert_close(out, model(x)[0], rtol=0.0, atol=0.03)


def test_no_projection_where_widths_agree() -> None:
    assert RRNN(P, P).lin is None
    assert RRNN(-1, P).lin is not None
    names = [name for name, _ in RRNN(P, P).named_parameters()]
    assert names == [
        "tuples.weight",
        "tuples.bias",
        "scorer.lin.weight",
        "scorer.lin.bias",
        "scorer.out.weight",
        "norm.weight",
        "norm.bias",
    ]


def test_biases_as_far_apart_as_asked_for() -> None:
    torch.manual_seed(0)
    model = RRNN(2, 400, 8, 3, bias_std=1.5)
    for bias in (model.tuples.bias, model.norm.bias):
        assert float(bias.detach().std()) == pytest.approx(1.5, rel=0.05)
    model = RRNN(2, 400, 8, 3)
    assert model.tuples.bias.abs().max() < 0.05
    assert not model.norm.bias.any()


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (RRNN(16, 32), "RRNN(16, 32, rounds=8, num_tuples=3, choice='softmax', temperature=1, norm='layer')"),
        (
            RRNN(-1, 8, (7, 2), 4, choice="straight_through", norm="batch", bias_std=0.5),
            "RRNN(-1, 8, rounds=[7, 2], num_tuples=4, choice='straight_through', temperature=1, "
            "norm='batch', bias_std=0.5)",
        ),
    ],
    ids=["default", "states"],
)
def test_repr(model: RRNN, text: str) -> None:
    assert repr(model) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 0}, "in_channels must be an integer of at least 1, or -1 for lazy, got 0"),
        ({"out_channels": 0}, "out_channels must be an integer of at least 1, got 0"),
        ({"hidden_channels": 0}, "hidden_channels must be an integer of at least 1, got 0"),
        ({"rounds": 0}, "rounds must be an integer of at least 1, got 0"),
        ({"rounds": 2.5}, r"rounds must be an integer of at least 1, got 2\.5"),
        ({"rounds": ()}, r"rounds must be those of at least one run, got \(\)"),
        ({"num_tuples": 0}, "num_tuples must be an integer of at least 1, got 0"),
        ({"operations": ("sub",)}, "compose must be one of mul, add"),
        ({"activations": ()}, "activations must be names"),
        ({"choice": "best"}, "choice must be one of softmax, straight_through, hard, got 'best'"),
        ({"norm": "group"}, "norm must be one of layer, batch, max, or None, got 'group'"),
        ({"temperature": -1.0}, r"temperature must be positive and finite, got -1\.0"),
        ({"temperature": float("inf")}, "temperature must be positive and finite, got inf"),
        ({"bias_std": -1.0}, r"bias_std must be finite and not negative, got -1\.0"),
        ({"bias_std": float("nan")}, "bias_std must be finite and not negative, got nan"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RRNN(**{"in_channels": D, "out_channels": P, **arguments})


@pytest.mark.parametrize("choice", ["softmax", "hard"])
def test_gradients_of_gradients(choice: str) -> None:
    """Of a penalty on gradients, along a direction, beside its finite difference."""
    torch.manual_seed(0)
    model = RRNN(3, 3, 2, 2, hidden_channels=4, choice=choice, norm=None).double()
    x, along = normal(1, 2, 3).requires_grad_(), normal(1, 2, 3)

    def gradient(x: Tensor) -> Tensor:
        return torch.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)[0]

    (found,) = torch.autograd.grad((gradient(x) * along).sum(), x)
    step = 1e-6
    before, after = (gradient((x + sign * step * along).detach().requires_grad_()) for sign in (-1, 1))
    torch.testing.assert_close(found, (after - before) / (2 * step), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("norm", [None, "max", "layer"])
def test_second_derivatives_from_a_state_that_is_zero(norm: str | None) -> None:
    model, x = made(2, 2, norm=norm).double(), normal(2, 3, D).requires_grad_()
    (first,) = torch.autograd.grad(model(x)[0].square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert second.isfinite().all()
    assert second.any()
