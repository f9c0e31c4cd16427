"""Messages of a relabelling: neighbours shifted by their edges, mapped, and summed."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import is_pure

from .edges import SortedEdges
from .fused import FusedSum, loops_for
from .message_sum import blocked_sum
from .naive import relabel_message, relabel_sum_naive
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

    :func:`relabel_sum_naive`, faster. With a table for V, and ``ReLU``, ``Tanh`` or ``Identity`` for σ, the
    compiled loops of :func:`gated_sum` are taken where that function would take them; other activations of
    torch without parameters go by blocks of edges on a CPU, and any other σ runs as it is, once per edge.

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

    def naive(m: Tensor, V: Tensor, w: Tensor | None) -> Tensor:
        return relabel_sum_naive(m, edges.pair, edges.num_targets, act, V, edge_type, w)

    values = (m, edge_shift, weight)
    if not is_pure(act):
        return naive(*values)
    loops = loops_for(values) if edge_type is not None and type(act) in KINDS else None
    if loops is None:
        message = partial(relabel_message, act=act)
        kinds = {
            "m_j": "source",
            "edge_shift": "edge" if edge_type is None else "table",
            "edge_weight": "edge",
        }
        return blocked_sum(message, edges, edge_type, kinds, values, naive)
    loop = loops.MappedLoop(edges, edge_type, weight, KINDS[type(act)])
    return FusedSum.apply(loop, lambda m, V: naive(m, V, weight), m, edge_shift)
