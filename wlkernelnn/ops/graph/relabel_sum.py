"""Messages of a relabelling: neighbours shifted by their edges, mapped, and summed."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import is_pure
from wlkernelnn.ops.autograd import savable

from .edges import SortedEdges
from .fused import fused_sum, loops_for
from .naive import relabel_sum_naive
from .neighbor_sum import neighbor_sum

# Activations of the compiled loops.
KINDS: dict[type, str] = {torch.nn.ReLU: "RELU", torch.nn.Tanh: "TANH", torch.nn.Identity: "ADD"}


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
