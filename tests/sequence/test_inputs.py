"""What every sequence model reads, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.sequence_models import ALL_MODELS, D, Make, drawn
from tests.inputs.strings import LENGTHS, end_to_end, normal, ptr_of
from wlkernelnn.testing.string_laws import parts


@ALL_MODELS
def test_inputs_of_other_kinds(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end([normal(2, D), normal(3, D)])
    assert torch.equal(model(x, ptr.tolist())[0], model(x, ptr)[0])
    with pytest.raises(TypeError, match="needs x as a tensor or packed, got list; path_graph makes"):
        model([normal(2, D)])


@ALL_MODELS
def test_packed_strings(make: Make) -> None:
    model, strings = drawn(make), [normal(length, D) for length in (2, 4, 1, 4)]
    expected, expected_state = model(*end_to_end(strings))
    out, state = model(torch.nn.utils.rnn.pack_sequence(strings, enforce_sorted=False))
    torch.testing.assert_close(torch.cat(torch.nn.utils.rnn.unpack_sequence(out)), expected)
    for part, wanted in zip(parts(state), parts(expected_state), strict=True):
        torch.testing.assert_close(part, wanted)


@ALL_MODELS
def test_inputs_that_do_not_match(make: Make) -> None:
    model, x, ptr = drawn(make), normal(11, D), ptr_of(LENGTHS["ragged"])
    name = type(model).__name__
    for inputs, message in (
        ((x,), rf"{name} needs x of shape \[B, T, in_channels\], .* got \[11, {D}\] without ptr"),
        ((x.unsqueeze(0), ptr), rf"{name} needs x of shape \[N, in_channels\] with ptr, got \[1, 11, {D}\]"),
        ((x[1:], ptr), f"{name}: ptr ends at 11, x has 10 tokens"),
        ((x, ptr + 1), "ptr must begin with 0"),
        ((x, ptr.double()), "ptr must be a vector of integers"),
        ((normal(11, D + 1), ptr), rf"{name} reads tokens of {D} values, got x of shape \[11, {D + 1}\]"),
        ((normal(2, 3, D + 1),), rf"got x of shape \[2, 3, {D + 1}\]"),
    ):
        with pytest.raises(ValueError, match=message):
            model(*inputs)


@ALL_MODELS
@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], [2] * 5], ids=["ragged", "equal"])
def test_states_that_do_not_match(make: Make, lengths: list[int]) -> None:
    model = drawn(make)
    x, ptr = normal(sum(lengths), D), ptr_of(lengths)
    _, state = model(x, ptr)

    def every(change: Callable[[Tensor], Tensor], state: Any) -> Any:
        return change(state) if isinstance(state, Tensor) else tuple(every(change, part) for part in state)

    for change in (
        lambda part: part[..., :-1, :],
        lambda part: torch.cat([part, part], dim=-2),
        lambda part: part[..., :-1],
        lambda part: part.reshape(-1),
    ):
        with pytest.raises(ValueError, match=r"needs (a state|states) of"):
            model(x, ptr, every(change, state))
    for wrong in ([state], (None,), "state"):
        with pytest.raises(ValueError, match="a state is a tensor or a tuple of states, got"):
            model(x, ptr, wrong)
    with pytest.raises(ValueError, match="state"):
        model(x, ptr, (*parts(state), *parts(state)))
