from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.inputs.strings import assert_same_with_gradients, normal
from wlkernelnn.sequence.rrnn import Space
from wlkernelnn.sequence.rrnn.search.choice import CHOICES, Choice
from wlkernelnn.sequence.rrnn.search.naive import search_naive
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown, search
from wlkernelnn.sequence.rrnn.search.tuples import Tuples

P, R, ROUNDS = 3, 3, 3
SPACE = Space(R)


def inputs(strings: int = 3) -> dict[str, Tensor]:
    hidden = {"hidden": normal(8, P), "hidden_bias": normal(8), "out": normal(8)}
    return {
        "start": normal(strings, 2, P),
        "weight": normal(2, R - 1, P, P),
        "bias": normal(R - 1, P),
        **hidden,
    }


def scorer_of(hidden: Tensor, hidden_bias: Tensor, out: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda v: torch.relu(v @ hidden.t() + hidden_bias) @ out


def with_zeros(start: Tensor) -> Tensor:
    """As in a model: this is what makes copies, which differ in what they say of the zeros only."""
    return torch.nn.functional.pad(start, (0, 0, 0, 1))


class Given(Tuples):
    """Tuples of given tensors, with the identity."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__(P, R - 1, True)
        del self.weight, self.bias
        self.weight, self.bias = weight, bias


def fast(
    choice: Choice,
    distinct: bool,
    start: Tensor,
    weight: Tensor,
    bias: Tensor,
    space: Space = SPACE,
    **rest: Tensor,
) -> Grown:
    pool = Pool(space, Given(weight, bias), with_zeros(start))
    return search(pool, scorer_of(**rest), ROUNDS, choice, distinct)


def naive(
    choice: Choice,
    distinct: bool,
    start: Tensor,
    weight: Tensor,
    bias: Tensor,
    space: Space = SPACE,
    **rest: Tensor,
) -> Grown:
    same = torch.eye(P).double().expand(2, 1, P, P)
    weight = torch.cat([weight, same], 1)
    bias = torch.cat([bias, torch.zeros(1, P).double()])
    options = (ROUNDS, choice.how, choice.temperature, distinct)
    return search_naive(with_zeros(start), weight, bias, space, scorer_of(**rest), *options)


@pytest.mark.halved
@pytest.mark.parametrize("bounded", [False, True], ids=["", "bounded"])
@pytest.mark.parametrize("distinct", [False, True], ids=["", "distinct"])
@pytest.mark.parametrize("how", CHOICES)
def test_search_is_the_loop_over_candidates(how: str, distinct: bool, bounded: bool) -> None:
    choice, given, space = Choice(how, 0.7, gaps=True), inputs(2), replace(SPACE, bounded=bounded)
    assert_same_with_gradients(
        lambda **leaves: fast(choice, distinct, space=space, **leaves)[::2],
        lambda **leaves: naive(choice, distinct, space=space, **leaves)[::2],
        given,
        tolerance=1e-9,
    )
    given["start"][1, 1] = 0  # the first step of a string
    ours, theirs = (function(choice, distinct, space=space, **given) for function in (fast, naive))
    torch.testing.assert_close(ours.nodes, theirs.nodes)
    torch.testing.assert_close(ours.gaps, theirs.gaps)
    # Copies have equal scores, but for rounding: which of them is taken may differ.
    assert distinct or all(len(set(numbers)) == ROUNDS for numbers in ours.numbers.tolist())


@pytest.mark.parametrize("how", CHOICES)
def test_without_copies_the_constructions_are_the_same(how: str) -> None:
    space = Space(R - 1, activations=("tanh", "sigmoid"))
    given, start = inputs(), normal(3, 3, P)
    weight, bias, scorer = given["weight"], given["bias"], scorer_of(*list(given.values())[3:])
    tuples = Tuples(P, R - 1, False).double()
    tuples.load_state_dict({"weight": weight, "bias": bias})
    ours = search(Pool(space, tuples, start), scorer, ROUNDS, Choice(how))
    assert torch.equal(ours.numbers, search_naive(start, weight, bias, space, scorer, ROUNDS, how).numbers)


def test_distinct_nodes_are_distinct() -> None:
    # All that this scorer likes is 1 − 0 and its copies.
    pool = Pool(SPACE, Tuples(P, R - 1, True).double(), with_zeros(inputs()["start"]))
    usual = search(pool, lambda v: -(v - 1).square().sum(-1), 3, Choice())
    assert torch.equal(usual.nodes[:, 0], usual.nodes[:, 1])
    pool = Pool(SPACE, Tuples(P, R - 1, True).double(), with_zeros(inputs()["start"]))
    distinct = search(pool, lambda v: -(v - 1).square().sum(-1), 3, Choice(), distinct=True)
    assert torch.equal(distinct.nodes[:, 0], usual.nodes[:, 0])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert ((distinct.nodes[:, i] - distinct.nodes[:, j]).abs() > 1e-6).any(1).all()


def test_distinct_nodes_are_distinct_before_their_norm() -> None:
    made: list[Tensor] = []

    def halved(node: Tensor, _: int) -> Tensor:
        made.append(node)
        return node / 2

    pool = Pool(SPACE, Tuples(P, R - 1, True).double(), with_zeros(inputs()["start"]))
    search(pool, lambda v: -(v - 1).square().sum(-1), 3, Choice(), distinct=True, norm=halved)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert ((made[i] - made[j]).abs() > 1e-6).any(1).all()


def test_where_there_are_only_copies_they_are_chosen() -> None:
    space = Space(1, ("add",), ("identity",))
    pool = Pool(space, Tuples(P, 0, True), torch.zeros(2, 2, P))
    grown = search(pool, lambda v: v.sum(-1), 3, Choice("softmax", gaps=True), distinct=True)
    assert not grown.nodes.any()
    assert torch.isinf(grown.gaps).all()
    assert all(len(set(numbers)) == 3 for numbers in grown.numbers.tolist())


def test_the_runner_up_is_no_copy_however_many_there_are() -> None:
    start = torch.zeros(1, 12, 1)
    start[0, -1] = -2.0
    pool = Pool(Space(1, ("add", "mul"), ("identity",)), Tuples(1, 0, True), start)
    # 0 + 0 and 0 ⊙ 0 of 55 pairs, and 0 ⊙ −2 of 11, are copies; then comes 0 + (−2).
    grown = search(pool, lambda v: v.squeeze(-1), 1, Choice(gaps=True))
    assert grown.nodes.item() == 0.0
    assert grown.gaps.item() == 2.0


def test_low_temperature_is_the_best_candidate() -> None:
    given = inputs()
    hard, cold = (fast(Choice(how, 1e-4), True, **given) for how in ("hard", "softmax"))
    torch.testing.assert_close(cold.nodes, hard.nodes)
    warm = fast(Choice("softmax", 1.0), True, **given)
    assert not torch.allclose(warm.nodes, hard.nodes)


@pytest.mark.parametrize("how", CHOICES)
def test_scores_have_gradients_in_training_only(how: str) -> None:
    given = {name: value.requires_grad_() for name, value in inputs().items()}
    grown = fast(Choice(how), False, **given)
    (grad,) = torch.autograd.grad(grown.nodes[:, -1].sum(), given["out"], allow_unused=True)
    assert (grad is not None) == (how != "hard")
    if grad is not None:
        assert grad.any()


def test_bad_choices() -> None:
    with pytest.raises(ValueError, match="choice must be one of softmax, straight_through, hard, got 'soft'"):
        Choice("soft")
    with pytest.raises(ValueError, match=r"temperature must be positive and finite, got 0\.0"):
        Choice(temperature=0.0)
