"""Messages of a relabelling: neighbours shifted by their edges, mapped, and summed."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from wlkernelnn.blocks.activation import as_now, comes_again

from .edge_naive import relabel_message
from .edges import SortedEdges
from .fused import FusedSum, loops_for
from .gated_sum import given
from .message_sum import message_sum
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

    With a table for V, and ``ReLU``, ``Tanh`` or ``Identity`` for σ, the compiled loops of
    :func:`gated_sum` are taken where that function would take them; else the sum is a :func:`message_sum`.

    Args:
        m: ``[num_sources, K]``.
        edges: Edges sorted by target; nodes out of range are not noticed.
        act: σ, elementwise; it may have parameters, and be random by torch's generators (dropout, ``RReLU``).
        edge_shift: V: a table ``[num_edge_types, K]`` if there is an ``edge_type``, else ``[E, K]``.
        edge_type: ``[E]``, in the order of ``edges``; values out of range are not noticed.
        edge_weight: w, ``[E]`` or ``[E, 1]``, in the order of ``edges``.

    Returns:
        ``[num_targets, K]``.
    """
    weight = None if edge_weight is None else edge_weight.view(-1)
    if edge_shift is None:
        return neighbor_sum(act(m), edges, weight)

    def composed(m: Tensor, edge_shift: Tensor) -> Tensor:
        return message_sum(
            partial(relabel_message, act=as_now(act)),
            edges,
            source={"m_j": m},
            edge=given(
                edge_weight=None if weight is None else weight.unsqueeze(1),
                edge_shift=edge_shift if edge_type is None else None,
            ),
            table={} if edge_type is None else {"edge_shift": edge_shift},
            edge_type=edge_type,
            parameters=tuple(act.parameters()),
            pure=comes_again(act, m),
        )

    values = (m, edge_shift)
    loops = loops_for(values, weight) if edge_type is not None and type(act) in KINDS else None
    if loops is None:
        return composed(*values)
    loop = loops.MappedLoop(edges, edge_type, weight, KINDS[type(act)])
    return FusedSum.apply(loop, composed, *values)
