"""Windows against their definition, token by token."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.inputs.strings import assert_same_with_gradients, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import Steps, last_tokens, windows

D = 2


def fast(lengths: list[int], size: int, dilation: int, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    steps = Steps(ptr_of(lengths))
    before = inputs.get("before")
    before = None if before is None else steps.sort(before)
    x = steps.enter(inputs["x"])
    last = last_tokens(x, steps, (size - 1) * dilation, before)
    return steps.leave(windows(x, steps, size, dilation, before)), steps.unsort(last)


def naive(lengths: list[int], size: int, dilation: int, **inputs: Tensor) -> tuple[Tensor, Tensor]:
    reach, x, ptr = (size - 1) * dilation, inputs["x"], ptr_of(lengths).tolist()
    before = inputs.get("before", x.new_zeros(reach, len(lengths), D))
    rows, last = [x.new_zeros(0, size * D)], [x.new_zeros(reach, 0, D)]
    for string, length in enumerate(lengths):
        known = torch.cat([before[:, string], x[ptr[string] : ptr[string + 1]]])
        for t in range(length):
            rows.append(torch.cat([known[reach + t - j * dilation] for j in range(size)]).unsqueeze(0))
        last.append(known[len(known) - reach :].unsqueeze(1))
    return torch.cat(rows), torch.cat(last, 1)


def assert_same(lengths: list[int], size: int, dilation: int, carried: bool) -> None:
    inputs = {"x": normal(sum(lengths), D)}
    if carried:
        inputs["before"] = normal((size - 1) * dilation, len(lengths), D)
    assert_same_with_gradients(
        lambda **values: fast(lengths, size, dilation, **values),
        lambda **values: naive(lengths, size, dilation, **values),
        inputs,
    )


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    lengths=some_lengths,
    size=st.sampled_from([1, 2, 3, 7]),
    dilation=st.integers(1, 3),
    carried=st.booleans(),
)
def test_same_as_naive(lengths: list[int], size: int, dilation: int, carried: bool) -> None:
    assert_same(lengths, size, dilation, carried)
