"""Sums over edges that write nothing of size ``[E, K]``: compiled loops on a CPU and a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import module_for, optional_module, traced
from wlkernelnn.ops.fast_op import FastOp

from .edges import SortedEdges


@dataclass
class Loop(ABC):
    """A sum over edges of values of sources, targets and tables (``None`` for one that is not there).

    Attributes:
        edges: Edges sorted by target.
        edge_type: Row of the tables for every edge, int64 ``[E]``; without it there are no tables.
        weight: ``[E, 1]``, without gradients.
        option: A number or a name that kernels take.
    """

    edges: SortedEdges
    edge_type: Tensor | None
    weight: Tensor | None
    option: Any

    @abstractmethod
    def sum(self, *values: Tensor | None) -> Tensor:
        """The sum for every target."""

    @abstractmethod
    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Gradients of the values, each in its place; those that are not needed may be anything."""


numba_loops = partial(optional_module, "wlkernelnn.ops.graph.numba_loops")
triton_loops = partial(optional_module, "wlkernelnn.ops.graph.triton_loops")

# Which module has the loops of a type of device. Under TRITON_INTERPRET=1 Triton's take CPU tensors as well.
LOOPS: dict[str, Callable[[], Any]] = {"cpu": numba_loops, "cuda": triton_loops}


def loops_for(values: Sequence[Tensor | None]) -> Any:
    r"""The module of loops that take these values and give all gradients wanted of them, or ``None``.

    For edges e from u to v of type t, ``GatedLoop`` with the option s sums
    :math:`w_e s \, \mathrm{sigmoid}(a_u + b_v + G_t) \odot c_u \odot F_t` of a, b, G, c and F. ``MappedLoop``
    sums :math:`w_e f(x_u, T_t)` of x and T, where the option f is the product (``"MULTIPLY"``), the sum
    (``"ADD"``), or ``"RELU"`` or ``"TANH"`` of the sum. The last value is w, which has no gradients.
    """
    weight = values[-1]
    learned = weight is not None and weight.requires_grad and torch.is_grad_enabled()
    return None if learned or traced(*values) else module_for(LOOPS, *values)


def fused_sum(loop: Loop, naive: Callable[..., Tensor], *values: Tensor | None) -> Tensor:
    """The sum of a :class:`Loop` of these values; ``naive`` is the same in PyTorch's own operations."""
    edges = loop.edges
    # What the gradients read beside the values, and nobody may write to before.
    fixed = edges.source, edges.target, edges.indptr, loop.edge_type, loop.weight
    op = FastOp(
        plain=lambda *values: (naive(*values),),
        forward=lambda *values: ((loop.sum(*values),), fixed),
        backward=lambda values, kept, needed, grads: loop.gradients(needed, grads[0], *values),
    )
    return op(*values)[0]
