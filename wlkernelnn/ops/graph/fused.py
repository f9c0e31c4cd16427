"""Sums over edges that write nothing of size ``[E, K]``: compiled loops on a CPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import is_pure
from wlkernelnn.ops.autograd import module_for, optional_module, savable, traced
from wlkernelnn.ops.fast_op import FastOp

from .edges import SortedEdges
from .naive import gated_sum_naive, relabel_sum_naive
from .neighbor_sum import neighbor_sum

# Activations of the compiled loops.
KINDS: dict[type, str] = {torch.nn.ReLU: "RELU", torch.nn.Tanh: "TANH", torch.nn.Identity: "ADD"}


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

# Which module has the loops of a type of device. Kernels for a GPU gained nothing there (docs/measured.md).
LOOPS: dict[str, Callable[[], Any]] = {"cpu": numba_loops}


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


def gated_sum(
    c: Tensor,
    edges: SortedEdges,
    gates: tuple[Tensor, Tensor] | None = None,
    edge_gate: Tensor | None = None,
    edge_factor: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
    gate_scale: float = 1.0,
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{e=(u,v)} w_e s \, \mathrm{sigmoid}(a_u + b_v + G_e) \odot c_u \odot F_e`

    of whichever factors are given: :func:`gated_sum_naive`, faster. With tables (or nothing) for G and F,
    values of one type, float32 or float64, take compiled loops over the edges, forwards and backwards, on a
    CPU where numba is installed (the extra ``fast``), on as many threads as torch has. The first use compiles
    them, which takes seconds, and keeps them on disk.

    Args:
        c: ``[num_sources, K]``.
        edges: Edges sorted by target; nodes out of range are not noticed.
        gates: a ``[num_sources, K]`` and b ``[num_targets, K]``.
        edge_gate, edge_factor: G (which needs ``gates``) and F: tables ``[num_edge_types, K]`` if there is an
            ``edge_type``, else ``[E, K]``.
        edge_type: ``[E]``, in the order of ``edges``; values out of range are not noticed.
        edge_weight: w, ``[E]`` or ``[E, 1]``, in the order of ``edges``.
        gate_scale: s.

    Returns:
        ``[num_targets, K]``.

    Raises:
        ValueError: ``edge_gate`` is given without ``gates``.
    """
    if gates is None and edge_gate is not None:
        raise ValueError("edge_gate is a part of a gate: it needs gates as well, got None")
    if gates is None and edge_factor is None:
        return neighbor_sum(c, edges, None if edge_weight is None else edge_weight.view(-1))
    weight = None if edge_weight is None else edge_weight.view(-1, 1)
    edge_type = None if edge_type is None else edge_type.long()

    def naive(a: Tensor | None, b: Tensor | None, G: Tensor | None, c: Tensor, F: Tensor | None) -> Tensor:
        ab = None if a is None or b is None else (a, b)
        types = None if edge_type is None else savable(edge_type)
        return gated_sum_naive(c, edges.pair, edges.num_targets, ab, G, F, types, weight, gate_scale)

    a, b = gates or (None, None)
    values = (a, b, edge_gate, c, edge_factor)
    tables = edge_gate is not None or edge_factor is not None
    loops = None if tables and edge_type is None else loops_for((*values, weight))
    if loops is None:
        return naive(*values)
    if gates is None:
        loop = loops.MappedLoop(edges, edge_type, weight, "MULTIPLY")
        return fused_sum(loop, lambda c, F: naive(None, None, None, c, F), c, edge_factor)
    loop = loops.GatedLoop(edges, edge_type if tables else None, weight, gate_scale)
    return fused_sum(loop, naive, *values)


def relabel_sum(
    m: Tensor,
    edges: SortedEdges,
    act: torch.nn.Module,
    edge_shift: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{e=(u,v)} w_e \, \sigma(m_u + V_e)`, of whatever is given.

    :func:`relabel_sum_naive`, faster: with a table for V, and ``ReLU``, ``Tanh`` or ``Identity`` for σ, the
    compiled loops of :func:`gated_sum` are taken where that function would take them.

    Args:
        m: ``[num_sources, K]``.
        edges: Edges sorted by target; nodes out of range are not noticed.
        act: σ, elementwise; it may have parameters and be random.
        edge_shift: V: a table ``[num_edge_types, K]`` if there is an ``edge_type``, else ``[E, K]``.
        edge_type: ``[E]``, in the order of ``edges``; values out of range are not noticed.
        edge_weight: w, ``[E]`` or ``[E, 1]``, in the order of ``edges``.

    Returns:
        ``[num_targets, K]``.
    """
    weight = None if edge_weight is None else edge_weight.view(-1, 1)
    if edge_shift is None:
        return neighbor_sum(act(m), edges, None if weight is None else weight.view(-1))

    edge_type = None if edge_type is None else edge_type.long()

    def naive(m: Tensor, V: Tensor) -> Tensor:
        types = None if edge_type is None else savable(edge_type)
        return relabel_sum_naive(m, edges.pair, edges.num_targets, act, V, types, weight)

    compiled = edge_type is not None and type(act) in KINDS and is_pure(act)
    loops = loops_for((m, edge_shift, weight)) if compiled else None
    if loops is None:
        return naive(m, edge_shift)
    return fused_sum(loops.MappedLoop(edges, edge_type, weight, KINDS[type(act)]), naive, m, edge_shift)
