"""Steps of many strings at once against strings one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.strings import LENGTHS, normal, ptr_of
from wlkernelnn.ops.scan import Steps, feedback_scan_naive, gated_scan_naive, ngram_scan_naive
from wlkernelnn.ops.scan.equations import Step, feedback_step, gated_step, ngram_step
from wlkernelnn.ops.scan.plain import by_step
from wlkernelnn.sequence.rkm import VARIANTS

D = 3
LSTM = VARIANTS["lstm"]
Rows = tuple[list[Tensor] | tuple[Tensor, ...], Tensor | tuple[Tensor, ...]]


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize(
    ("of_steps", "of_strings"),
    [
        (
            lambda x, weight: ngram_step([x, 2 * x], torch.sigmoid(x), "mul", True),
            lambda x, weight, ptr, state: ngram_scan_naive([x, 2 * x], torch.sigmoid(x), ptr, state),
        ),
        (
            lambda x, weight: feedback_step([x], -x, weight, "mul", True, None, torch.tanh, None, None),
            lambda x, weight, ptr, state: feedback_scan_naive([x], -x, weight, ptr, state, act=torch.tanh),
        ),
        (
            lambda x, weight: gated_step(LSTM, x.repeat(1, 4), weight.repeat(4, 1), (1.0, 0.0), None, False),
            lambda x, weight, ptr, state: gated_scan_naive(
                LSTM, x.repeat(1, 4), weight.repeat(4, 1), ptr, state.unbind(0)
            ),
        ),
    ],
    ids=["ngram", "feedback", "gated"],
)
def test_as_strings_one_by_one(
    lengths: list[int],
    of_steps: Callable[[Tensor, Tensor], Step],
    of_strings: Callable[[Tensor, Tensor, Tensor, Tensor], Rows],
) -> None:
    ptr = ptr_of(lengths)
    steps, x, weight = Steps(ptr), normal(sum(lengths), D), normal(D, D)
    state = normal(2, len(lengths), D)
    found = by_step(of_steps(steps.enter(x), weight), steps, steps.sort(state).unbind(0), x)
    rows, last = of_strings(x, weight, ptr, state)
    for extended, row, end, begin in zip(found, rows, last, state, strict=True):
        torch.testing.assert_close(steps.unsort(extended[: steps.num_strings]), begin)
        torch.testing.assert_close(steps.leave(extended[steps.num_strings :]), row)
        if len(lengths):
            torch.testing.assert_close(steps.unsort(steps.last(extended)), end)


def test_from_zero() -> None:
    steps, x = Steps(ptr_of([2, 1])), torch.ones(3, D)
    (c,) = by_step(ngram_step([x], 0.5, "mul", False), steps, [None], x)
    assert c[:, 0].tolist() == [0, 0, 1, 1, 1.5]
