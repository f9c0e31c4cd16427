"""The sums as their equations say them: the oracle of the fused versions, and for reading."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def gated_message(
    c_j: Tensor,
    gate_j: Tensor | None = None,
    gate_i: Tensor | None = None,
    edge_gate: Tensor | None = None,
    edge_factor: Tensor | None = None,
    edge_weight: Tensor | None = None,
    gate_scale: float = 1.0,
) -> Tensor:
    r""":math:`w \, s \, \mathrm{sigmoid}(a + b + G) \odot c \odot F` of edges, of whatever is given.

    Args:
        c_j, gate_j: c and a of every edge's source, ``[E, K]``.
        gate_i: b of every edge's target, ``[E, K]``.
        edge_gate, edge_factor: G and F of every edge, ``[E, K]``.
        edge_weight: w, ``[E, 1]``.
        gate_scale: s.
    """
    if gate_j is not None and gate_i is not None:
        logits = gate_j + gate_i
        c_j = gate_scale * torch.sigmoid(logits if edge_gate is None else logits + edge_gate) * c_j
    if edge_factor is not None:
        c_j = edge_factor * c_j
    return c_j if edge_weight is None else edge_weight * c_j


def relabel_message(
    m_j: Tensor,
    edge_shift: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *,
    act: Callable[[Tensor], Tensor],
) -> Tensor:
    r""":math:`w \, \sigma(m + V)` of edges, of whatever is given.

    Args:
        m_j: m of every edge's source, ``[E, K]``.
        edge_shift: V of every edge, ``[E, K]``.
        edge_weight: w, ``[E, 1]``.
        act: σ.
    """
    m_j = act(m_j if edge_shift is None else m_j + edge_shift)
    return m_j if edge_weight is None else edge_weight * m_j


def gated_sum_naive(
    c: Tensor,
    edge_index: Tensor,
    num_targets: int,
    gates: tuple[Tensor, Tensor] | None = None,
    edge_gate: Tensor | None = None,
    edge_factor: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
    gate_scale: float = 1.0,
) -> Tensor:
    """The sum of :func:`gated_message` over the edges into every target; see :func:`gated_sum`."""
    u, v = edge_index
    a, b = gates or (None, None)
    messages = gated_message(
        c.index_select(0, u),
        None if a is None else a.index_select(0, u),
        None if b is None else b.index_select(0, v),
        _at_edges(edge_gate, edge_type),
        _at_edges(edge_factor, edge_type),
        None if edge_weight is None else edge_weight.view(-1, 1),
        gate_scale,
    )
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)


def relabel_sum_naive(
    m: Tensor,
    edge_index: Tensor,
    num_targets: int,
    act: Callable[[Tensor], Tensor],
    edge_shift: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    """The sum of :func:`relabel_message` over the edges into every target; see :func:`relabel_sum`."""
    u, v = edge_index
    weight = None if edge_weight is None else edge_weight.view(-1, 1)
    messages = relabel_message(m.index_select(0, u), _at_edges(edge_shift, edge_type), weight, act=act)
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)


def _at_edges(values: Tensor | None, edge_type: Tensor | None) -> Tensor | None:
    return values if values is None or edge_type is None else values.index_select(0, edge_type)
