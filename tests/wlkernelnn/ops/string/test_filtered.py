"""Filters against windows of every token, values and gradients."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.inputs.strings import assert_same_with_gradients, normal, ptr_of, some_lengths
from wlkernelnn.ops.string import Steps, filtered, windows

K = 3


def fast(steps: Steps, dilation: int, x: Tensor, filters: Tensor, before: Tensor | None = None) -> Tensor:
    return filtered(x, filters, steps, dilation, before)


def naive(steps: Steps, dilation: int, x: Tensor, filters: Tensor, before: Tensor | None = None) -> Tensor:
    size = filters.size(1)
    seen = windows(x, steps, size, dilation, before).view(len(x), size, K)
    return (seen * filters.flip(1).t()).sum(1)


def assert_same(lengths: list[int], size: int, dilation: int, carried: bool) -> None:
    steps = Steps(ptr_of(lengths))
    inputs = {"x": normal(sum(lengths), K), "filters": normal(K, size)}
    if carried:
        inputs["before"] = normal((size - 1) * dilation, len(lengths), K)
    assert_same_with_gradients(
        lambda **values: [fast(steps, dilation, **values)],
        lambda **values: [naive(steps, dilation, **values)],
        inputs,
    )


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    lengths=some_lengths,
    size=st.sampled_from([1, 2, 3, 7]),
    dilation=st.integers(1, 3),
    carried=st.booleans(),
)
def test_same_as_windows(lengths: list[int], size: int, dilation: int, carried: bool) -> None:
    assert_same(lengths, size, dilation, carried)


def test_gradients_have_gradients() -> None:
    steps = Steps(ptr_of([4, 2]))
    inputs = [normal(6, K).requires_grad_(), normal(K, 3).requires_grad_()]
    assert torch.autograd.gradgradcheck(lambda x, filters: filtered(x, filters, steps, 2), inputs)
