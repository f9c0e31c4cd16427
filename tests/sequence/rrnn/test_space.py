from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.strings import normal
from wlkernelnn.sequence.rrnn import Construction, Space
from wlkernelnn.sequence.rrnn.pool import Pool
from wlkernelnn.sequence.rrnn.tuples import Tuples

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


@pytest.mark.parametrize("identity", [False, True])
def test_candidates_are_what_the_numbers_say(identity: bool) -> None:
    tuples = Tuples(4, 3 - identity, identity).double()
    pool = Pool(SPACE, tuples, normal(2, 3, 4))
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
        torch.testing.assert_close(candidates[:, SPACE.number(made)], torch.tanh(one * other + bias))


def test_tuples_at_a_construction() -> None:
    pool = Pool(SPACE, Tuples(4, 2, True).double(), normal(2, 3, 4))
    made = Construction(0, "mul", "tanh", 0, 2)
    numbers = torch.tensor([[SPACE.number(made._replace(tuple_index=r)) for r in range(3)]] * 2)
    torch.testing.assert_close(pool.with_tuples(made), pool.make(numbers))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "operations must be names, each of them once"),
        (("add", "add"), "operations must be names, each of them once"),
        (("add", "sub"), 'compose must be "mul" or "add"'),
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
