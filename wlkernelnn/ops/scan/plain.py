"""The recurrences of torch's own operations, step by step over all strings at once.

Transforms of ``torch.func``, compilers, and gradients of gradients take these.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .equations import Step
from .steps import Steps


def by_step(step: Step, steps: Steps, states: Sequence[Tensor | None], like: Tensor) -> tuple[Tensor, ...]:
    """What strings carry, behind what they begin with.

    Args:
        step: The equations.
        steps: The strings.
        states: What strings begin with, each ``[B, d]`` in the order of a step; ``None`` is 0.
        like: ``[…, d]`` of the type and on the device of what is carried.

    Returns:
        Each ``[B + N, d]``, in step order.
    """
    zero = like.new_zeros(steps.num_strings, like.size(-1))
    rows: list[Sequence[Tensor]] = [[zero if state is None else state for state in states]]
    begin = 0
    for count in steps.counts:
        before = [value[:count] for value in rows[-1]]
        rows.append(step(before, slice(begin, begin + count), slice(0, count)))
        begin += count
    return tuple(torch.cat(values) for values in zip(*rows, strict=True))
