from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import normal
from wlkernelnn.sequence import RRNNGRU
from wlkernelnn.sequence.rrnn.search.choice import CHOICES
from wlkernelnn.sequence.rrnn.trees.trees import internal_nodes

P = 4


def made(num_tuples: int = 2, **options: Any) -> RRNNGRU:
    model = RRNNGRU(P, P, num_tuples, **options)
    randomize(model)
    return model


def looped(model: RRNNGRU, x: Tensor, how: str) -> tuple[Tensor, list[list[int]]]:
    """h of one string, node by node, and the tuples of the nodes."""
    left, right = (torch.cat([weight, torch.eye(P).double().unsqueeze(0)]) for weight in model.tuples.weight)
    bias = model.tuples.biases()
    h, outs, picks = torch.zeros(P).double(), [], []

    def node(act, one: Tensor, other: Tensor, times: bool = False, without: int | None = None) -> Tensor:
        vectors = []
        for r in range(len(bias)):
            pair = left[r] @ one, right[r] @ other
            vectors.append(act((pair[0] * pair[1] if times else pair[0] + pair[1]) + bias[r]))
        scores = torch.stack([model.scorer(vector) for vector in vectors])
        if without is not None:
            scores[without] = -torch.inf
        picks[-1].append(int(scores.argmax()))
        if how == "hard":
            return vectors[picks[-1][-1]]
        weights = torch.softmax(scores / model.choice.temperature, 0)
        if how == "softmax":
            return sum(w * v for w, v in zip(weights, vectors, strict=True))
        mixed = sum(w * v.detach() for w, v in zip(weights, vectors, strict=True))
        return vectors[picks[-1][-1]] + mixed - mixed.detach()

    def same(v: Tensor) -> Tensor:
        return v

    for token in x:
        picks.append([])
        r = node(torch.sigmoid, token, h)
        z = node(torch.sigmoid, token, h, without=picks[-1][0])
        reset = node(same, h, r, True)
        rest = node(lambda v: 1 - v, torch.zeros(P).double(), z)
        new = node(torch.tanh, token, reset)
        kept = node(same, h, z, True)
        h = node(same, kept, node(same, rest, new, True))  # the argument is made first
        outs.append(h)
    return torch.stack(outs), picks


@pytest.mark.parametrize("how", CHOICES)
def test_it_is_the_gru_with_tuples_of_ones_choice(how: str) -> None:
    model, x = made(temperature=0.5, choice=how), normal(3, 4, P)
    model.keep_trees = True
    out, _ = model(x)
    for string, came in zip(x, out, strict=True):
        expected, _ = looped(model, string, how)
        torch.testing.assert_close(came, expected)
    picks = [pick for string in x for pick in looped(model, string, how)[1]]
    record = model.last_trees
    assert record.space.parts(record.numbers)[0].tolist() == picks
    assert len({tuple(pick) for pick in picks}) > 1  # the trees of different tokens differ
    assert (record.gaps > 0).all()
    expected = torch.stack([looped(model, string, how)[0] for string in x])
    parameters = [p for name, p in model.named_parameters() if how != "hard" or "scorer" not in name]
    found, wanted = (torch.autograd.grad(total.pow(3).sum(), parameters) for total in (out, expected))
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


def test_every_tree_is_the_grus() -> None:
    model = made()
    model.keep_trees = True
    model(normal(2, 3, P))
    for token in range(6):
        (tree,) = model.last_trees[token]
        shape = {index: (node.operation, node.activation) for index, node in internal_nodes(tree).items()}
        assert shape == {
            1: ("add", "identity"),
            2: ("mul", "identity"),
            3: ("mul", "identity"),
            5: ("add", "sigmoid"),
            6: ("add", "one_minus"),
            7: ("add", "tanh"),
            13: ("add", "sigmoid"),
            15: ("mul", "identity"),
            31: ("add", "sigmoid"),
        }
        nodes = internal_nodes(tree)
        assert nodes[5] is nodes[13]
        assert nodes[5].tuple_index != nodes[31].tuple_index


def test_straight_through() -> None:
    model = made(choice="straight_through")
    x = normal(2, 3, P)
    out, _ = model(x)
    assert torch.allclose(out, model.eval()(x)[0])
    out.sum().backward()
    assert all(parameter.grad.any() for parameter in model.parameters())
    model.train()
    grads = torch.func.grad(lambda weights: torch.func.functional_call(model, weights, (x,))[0].sum())(
        dict(model.named_parameters())
    )
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(grads[name], parameter.grad)


def test_repr_and_bad_arguments() -> None:
    assert repr(RRNNGRU(3, 8, 5)) == "RRNNGRU(3, 8, num_tuples=5, choice='softmax', temperature=1, norm=None)"
    with pytest.raises(ValueError, match="num_tuples must be an integer of at least 1, got 0"):
        RRNNGRU(3, 8, 0)
