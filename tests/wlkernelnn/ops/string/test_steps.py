"""The order of steps: by hand, and as PyTorch packs sequences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence

from tests.inputs.strings import LENGTHS, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import Steps

ANY = settings(deadline=None, max_examples=60, derandomize=True)
ALL_LENGTHS = pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)

# Strings a; b c d; nothing; e f: by falling length they are 1, 3, 0, 2, and their steps bea, cf, d.
BY_HAND = Steps(ptr_of([1, 3, 0, 2]))
TOKENS = torch.tensor([[10.0], [20.0], [21.0], [22.0], [30.0], [31.0]])
IN_STEPS = torch.tensor([[20.0], [30.0], [10.0], [21.0], [31.0], [22.0]])
STATES = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
STATES_IN_STEP = torch.tensor([[2.0], [4.0], [1.0], [3.0]])


def filled(steps: Steps, x: Tensor, state: Tensor | None) -> Tensor:
    """A room with tokens in it."""
    extended = steps.room(x, state)
    extended[steps.num_strings :] = x
    return extended


def rows(values: Tensor) -> list[float]:
    return values.view(-1).tolist()


def test_sizes() -> None:
    assert (BY_HAND.num_strings, BY_HAND.num_tokens, BY_HAND.counts) == (4, 6, [3, 2, 1])
    assert BY_HAND.starts.tolist() == [0, 4, 7, 9]
    assert BY_HAND.string.tolist() == [0, 1, 2, 0, 1, 0]
    assert not BY_HAND.equal


def test_orders() -> None:
    assert torch.equal(BY_HAND.enter(TOKENS), IN_STEPS)
    assert torch.equal(BY_HAND.leave(IN_STEPS), TOKENS)
    assert torch.equal(BY_HAND.sort(STATES), STATES_IN_STEP)
    assert torch.equal(BY_HAND.unsort(STATES_IN_STEP), STATES)
    several = torch.stack([STATES, 10 * STATES])
    assert torch.equal(BY_HAND.sort(several), torch.stack([STATES_IN_STEP, 10 * STATES_IN_STEP]))


def test_steps_are_views() -> None:
    values = IN_STEPS.clone()
    steps = BY_HAND.split(values)
    assert [rows(step) for step in steps] == [[20, 30, 10], [21, 31], [22]]
    steps[1].zero_()
    assert rows(values) == [20, 30, 10, 0, 0, 22]
    both = BY_HAND.each(values, None)
    assert [(rows(value), nothing) for value, nothing in both] == [
        ([20, 30, 10], None),
        ([0, 0], None),
        ([22], None),
    ]


def test_of_tokens() -> None:
    assert rows(BY_HAND.of_tokens(STATES_IN_STEP)) == [2, 4, 1, 2, 4, 2]


def test_what_came_before_and_what_comes_last() -> None:
    extended = filled(BY_HAND, IN_STEPS, STATES_IN_STEP)
    assert rows(extended) == [2, 4, 1, 3, 20, 30, 10, 21, 31, 22]
    assert rows(BY_HAND.previous(extended)) == [2, 4, 1, 20, 30, 21]
    assert rows(BY_HAND.unsort(BY_HAND.last(extended))) == [10, 22, 3, 31]
    pairs = [(rows(before), rows(now)) for before, now in BY_HAND.pairs(extended)]
    assert pairs == [([2, 4, 1], [20, 30, 10]), ([20, 30], [21, 31]), ([21], [22])]


@pytest.mark.parametrize("state", [STATES_IN_STEP, None], ids=["state", "none"])
def test_room(state: Tensor | None) -> None:
    room = BY_HAND.room(IN_STEPS, state)
    assert room.shape == (10, 1)
    assert torch.equal(room[:4], STATES_IN_STEP if state is not None else torch.zeros(4, 1))


@ANY
@given(some_lengths)
def test_it_is_the_order_of_packed_sequences(lengths: list[int]) -> None:
    steps, x = Steps(ptr_of(lengths)), normal(sum(lengths), 2)
    strings = [string for string in x.split(lengths) if len(string)]
    if not strings:
        assert steps.counts == []
        return
    packed = pack_sequence(strings, enforce_sorted=False)
    # An empty string is the last one of every step: nothing changes for the others.
    assert steps.counts == packed.batch_sizes.tolist()
    assert torch.equal(steps.enter(x), packed.data)


@ANY
@given(some_lengths)
def test_strings_stay_apart(lengths: list[int]) -> None:
    """There and back again; before a token stands its own string's token or state, and so at the end."""
    steps, x, state = Steps(ptr_of(lengths)), normal(sum(lengths), 2), normal(len(lengths), 2)
    extended = filled(steps, steps.enter(x), steps.sort(state))
    before, last = steps.leave(steps.previous(extended)), steps.unsort(steps.last(extended))
    assert torch.equal(steps.leave(steps.enter(x)), x)
    assert torch.equal(steps.unsort(steps.sort(state)), state)
    own = steps.leave(steps.of_tokens(steps.sort(state)))
    for i, (string, came, repeated) in enumerate(
        zip(x.split(lengths), before.split(lengths), own.split(lengths), strict=True)
    ):
        whole = torch.cat([state[i : i + 1], string])
        assert torch.equal(came, whole[:-1])
        assert torch.equal(last[i], whole[-1])
        assert torch.equal(repeated, state[i].expand(len(string), -1))


@ALL_LENGTHS
def test_gradients_of_orders(lengths: list[int]) -> None:
    """Also twice: what enters leaves its gradient where it came from."""
    steps, x = Steps(ptr_of(lengths)), normal(sum(lengths), 2).requires_grad_()
    weight = normal(*x.shape)
    entered = steps.enter(x)
    (grad,) = torch.autograd.grad((steps.enter(weight) * entered**3).sum(), x, create_graph=True)
    torch.testing.assert_close(grad, 3 * weight * x**2)
    (second,) = torch.autograd.grad(grad.sum(), x)
    torch.testing.assert_close(second, 6 * weight * x)


def test_padded() -> None:
    steps, x = Steps.padded(2, 3), torch.arange(6.0).view(6, 1)
    assert steps.ptr.tolist() == [0, 3, 6]
    assert rows(steps.enter(x)) == [0, 3, 1, 4, 2, 5]
    for num_strings, length in ((0, 3), (3, 0)):
        empty = Steps.padded(num_strings, length)
        assert (empty.num_strings, empty.num_tokens) == (num_strings, 0)
        assert empty.enter(torch.zeros(0, 2)).shape == (0, 2)


def test_other_integers() -> None:
    steps = Steps(BY_HAND.ptr.int())
    assert torch.equal(steps.enter(TOKENS), IN_STEPS)
    assert torch.equal(steps.leave(IN_STEPS), TOKENS)


@pytest.mark.parametrize(
    ("ptr", "message"),
    [
        (torch.tensor([0.0, 2.0]), r"vector of integers \[B\+1\], got torch.float32 \[2\]"),
        (torch.tensor([[0, 2]]), r"vector of integers \[B\+1\], got torch.int64 \[1, 2\]"),
        (torch.tensor(3), r"got torch.int64 \[\]"),
        (torch.tensor([], dtype=torch.long), r"got torch.int64 \[0\]"),
        (torch.tensor([1, 2]), r"begin with 0 and never fall, got \[1, 2\]"),
        (torch.tensor([0, 3, 2]), r"begin with 0 and never fall, got \[0, 3, 2\]"),
        (torch.tensor([0, 3, 2, 4, 5, 6, 7]), r"got \[0, 3, 2, 4, 5, 6, …\]"),
    ],
    ids=["floats", "matrix", "number", "empty", "begins_late", "falls", "falls_long"],
)
def test_wrong_ptr(ptr: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Steps(ptr)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32], ids=str)
def test_small_integers(dtype: torch.dtype) -> None:
    """Rows are taken by them: torch takes uint8 for masks."""
    steps = Steps(torch.tensor([0, 1, 4, 4, 6], dtype=dtype))
    assert steps.ptr.dtype == torch.int64
    extended = filled(steps, steps.enter(TOKENS), None)
    assert rows(steps.unsort(steps.last(extended))) == [10.0, 22.0, 0.0, 31.0]


def test_masks_are_no_pointers() -> None:
    with pytest.raises(ValueError, match=r"a vector of integers \[B\+1\], got torch\.bool"):
        Steps(torch.tensor([False, True]))
