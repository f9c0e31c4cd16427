"""Sums over edges that write nothing of size ``[E, K]``: compiled loops on a CPU and a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import counting_writes, module_for, optional_module, traced
from wlkernelnn.ops.fast_op import FastOp


class Loop(Protocol):
    """A sum over edges of values of sources, targets and tables (``None`` for one that is not there).

    Attributes:
        fixed: What the gradients read beside the values, and nobody may write to before.
    """

    fixed: Sequence[Tensor | None]

    def sum(self, *values: Tensor | None) -> Tensor: ...

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Gradients of the values, each in its place; those that are not needed may be anything."""


numba_loops = partial(optional_module, "wlkernelnn.ops.graph.numba_loops")
triton_loops = partial(optional_module, "wlkernelnn.ops.graph.triton_loops")

# Which module has the loops of a type of device. Under TRITON_INTERPRET=1 Triton's take CPU tensors as well.
LOOPS: dict[str, Callable[[], Any]] = {"cpu": numba_loops, "cuda": triton_loops}


def loops_for(values: Sequence[Tensor | None]) -> Any:
    """The module of loops that take these values and give every gradient that is wanted of them, or ``None``.

    Its ``GatedLoop(edges, edge_type, weight, scale)`` and ``MappedLoop(edges, edge_type, weight, kind)`` are
    each a :class:`Loop`. The last value is the weight of edges, for which they give no gradients.
    """
    weight = values[-1]
    learned = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    return None if learned or traced(*values) else module_for(LOOPS, *values)


def fused_sum(loop: Loop, naive: Callable[..., Tensor], *values: Tensor | None) -> Tensor:
    """The sum of a :class:`Loop` of these values; ``naive`` is the same in PyTorch's own operations."""
    op = FastOp(
        plain=lambda *values: (naive(*values),),
        forward=lambda *values: ((loop.sum(*values),), counting_writes(*loop.fixed)),
        backward=lambda values, kept, needed, grads: loop.gradients(needed, grads[0], *values),
    )
    return op(*values)[0]
