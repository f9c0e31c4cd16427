"""Sums over edges that write nothing of size ``[E, K]``: compiled loops on a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import counting_writes, optional_module, traced
from wlkernelnn.ops.fast_op import FastOp


class Loop(Protocol):
    """A sum over edges of values of sources, targets and tables, and its gradients.

    Attributes:
        fixed: What the gradients read beside the values, and nobody may write to before.
    """

    fixed: Sequence[Tensor | None]

    def sum(self, *values: Tensor | None) -> Tensor:
        """The sum; ``None`` stands in the place of a table that is not there."""

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Gradients of the values, each in its place, of those that are needed."""


@cache
def numba_loops() -> Any:
    """The module of loops for CPUs, imported by the first call; ``None`` where numba cannot be imported."""
    return optional_module("wlkernelnn.ops.graph.numba_loops")


@cache
def triton_loops() -> Any:
    """The module of loops for GPUs, imported by the first call; ``None`` where Triton cannot be imported."""
    return optional_module("wlkernelnn.ops.graph.triton_loops")


# Which module has the loops of a type of device. Under TRITON_INTERPRET=1 Triton's take CPU tensors as well.
LOOPS: dict[str, Callable[[], Any]] = {"cpu": numba_loops, "cuda": triton_loops}


def loops_for(values: Sequence[Tensor | None]) -> Any:
    """The module of loops that take these values and give every gradient that is wanted of them, or ``None``.

    Its ``GatedLoop(edges, edge_type, weight, scale)`` and ``MappedLoop(edges, edge_type, weight, kind)`` are
    each a :class:`Loop`.

    Args:
        values: Of one type and device. The last is the weight of edges, for which there are no gradients.
    """
    first, *others = (value for value in values if value is not None)
    weight = values[-1]
    if (
        traced(*values)
        or any(other.dtype != first.dtype or other.device != first.device for other in others)
        or (weight is not None and weight.requires_grad and torch.is_grad_enabled())
    ):
        return None
    loops = LOOPS.get(first.device.type, lambda: None)()
    return loops if loops is not None and first.dtype in loops.DTYPES else None


def fused_sum(loop: Loop, naive: Callable[..., Tensor], *values: Tensor | None) -> Tensor:
    """The sum of a :class:`Loop` of these values; ``naive`` is the same in PyTorch's own operations."""
    op = FastOp(
        plain=lambda *values: (naive(*values),),
        forward=lambda *values: ((loop.sum(*values),), counting_writes(*loop.fixed)),
        backward=lambda values, kept, needed, grads: loop.gradients(needed, grads[0], *values),
    )
    return op(*values)[0]
