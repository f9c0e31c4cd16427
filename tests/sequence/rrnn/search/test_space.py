from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.inputs.strings import normal
from wlkernelnn.sequence.rrnn import Construction, Space
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.space import bounded
from wlkernelnn.sequence.rrnn.search.tuples import Tuples

SPACE = Space(3, ("mul", "add"), ("tanh", "identity", "relu"))


def test_numbers_are_counted_by_pair_then_tuple_operation_activation() -> None:
    made = [
        Construction(r, operation, activation, i, j)
        for j in range(6)
        for i in range(j)
        for r in range(3)
        for operation in SPACE.operations
        for activation in SPACE.activations
    ]
    assert [SPACE.number(one) for one in made] == list(range(len(made)))
    assert [SPACE.construction(number) for number in range(len(made))] == made
    assert SPACE.number(made[0]._replace(tuple_index=-1)) == SPACE.number(made[0]._replace(tuple_index=2))


def test_parts_of_large_numbers() -> None:
    for j in (1, 2, 1000, 100_000):
        for i in (0, j - 1):
            number = SPACE.number(Construction(2, "add", "relu", i, j))
            assert [int(part) for part in SPACE.parts(torch.tensor(number))] == [2, 1, 2, i, j]


def test_bounded_vectors() -> None:
    vectors = torch.tensor([[3.0, 4.0], [0.5, -0.5], [0.0, 0.0]], dtype=torch.float64, requires_grad=True)
    scaled = bounded(vectors)
    expected = torch.tensor([[0.6, 0.8], [0.5, -0.5], [0.0, 0.0]]).double()
    expected[0] *= 2**0.5
    torch.testing.assert_close(scaled, expected)
    (grad,) = torch.autograd.grad(scaled.sum(), vectors)
    torch.testing.assert_close(grad[1:], torch.ones(2, 2).double())
    # To make a large vector larger changes nothing.
    assert float((grad[0] * vectors[0]).sum().detach()) == pytest.approx(0)
    again = scaled.detach().requires_grad_()
    torch.testing.assert_close(bounded(again), again, rtol=0, atol=0)
    (grad,) = torch.autograd.grad(bounded(again).sum(), again)
    assert (grad == 1).all()


@pytest.mark.parametrize("space", [SPACE, replace(SPACE, bounded=True)], ids=["", "bounded"])
@pytest.mark.parametrize("identity", [False, True])
def test_candidates_are_what_the_numbers_say(identity: bool, space: Space) -> None:
    tuples = Tuples(4, 3 - identity, identity).double()
    pool = Pool(space, tuples, normal(2, 3, 4))
    candidates = pool.candidates()
    pool.append(normal(2, 4))
    candidates = torch.cat([candidates, pool.candidates()], 1)
    numbers = torch.arange(6 * SPACE.per_pair)
    assert candidates.shape == (2, len(numbers), 4)
    torch.testing.assert_close(pool.make(numbers.expand(2, -1)), candidates)
    for r in range(3):
        made = Construction(r, "mul", "tanh", 1, 3)
        one, other, bias = pool.nodes[1], pool.nodes[3], 0.0
        if r < len(tuples.bias):
            one, other = one @ tuples.weight[0, r].t(), other @ tuples.weight[1, r].t()
            bias = tuples.bias[r]
        vector = torch.tanh(one * other + bias)
        expected = bounded(vector) if space.bounded else vector
        torch.testing.assert_close(candidates[:, SPACE.number(made)], expected)
    large = (candidates.square().mean(-1) > 1 + 1e-9).any()
    assert large == (not space.bounded)


@pytest.mark.parametrize("space", [SPACE, replace(SPACE, bounded=True)], ids=["", "bounded"])
def test_tuples_at_a_construction(space: Space) -> None:
    pool = Pool(space, Tuples(4, 2, True).double(), normal(2, 3, 4))
    made = Construction(0, "mul", "tanh", 0, 2)
    numbers = torch.tensor([[SPACE.number(made._replace(tuple_index=r)) for r in range(3)]] * 2)
    torch.testing.assert_close(pool.with_tuples(made), pool.make(numbers))
    for r in range(3):
        torch.testing.assert_close(pool.one(made._replace(tuple_index=r)), pool.make(numbers)[:, r])
    torch.testing.assert_close(pool.one(made._replace(tuple_index=-1)), pool.make(numbers)[:, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "operations must be names, each of them once"),
        (("add", "add"), "operations must be names, each of them once"),
        (("add", "sub"), "compose must be one of mul, add"),
    ],
)
def test_bad_operations(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Space(3, arguments)


def test_bad_names() -> None:
    with pytest.raises(ValueError, match=r"activations must be of sigmoid, .*, got 'exp'"):
        Space(3, activations=("exp",))
    for wrong, message in (
        (Construction(0, "add", "tanh", 1, 1), "the left child must stand before the right one, got 1 and 1"),
        (Construction(3, "add", "tanh", 0, 1), "tuple_index must be one of 3 tuples, got 3"),
        (Construction(0, "add", "sigmoid", 0, 1), "must be made of tanh, identity, relu, got 'sigmoid'"),
    ):
        with pytest.raises(ValueError, match=message):
            SPACE.number(wrong)
