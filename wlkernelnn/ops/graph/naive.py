"""Sums over edges as their equations say them, in PyTorch's own operations.

They are for reading, the oracle of the fast versions, and what runs where PyTorch records or transforms
operations (:func:`wlkernelnn.ops.autograd.traced`). Edges are pairs of rows ``[E]``, sources and targets, in
any order: two tensors, or one ``[2, E]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Pair = Tensor | tuple[Tensor, Tensor]


def message_sum_naive(
    message: Callable[..., Tensor],
    edge_index: Pair,
    num_targets: int,
    *,
    source: Mapping[str, Tensor],
    target: Mapping[str, Tensor] | None = None,
    edge: Mapping[str, Tensor] | None = None,
    table: Mapping[str, Tensor] | None = None,
    edge_type: Tensor | None = None,
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{e=(u,v)} \mathrm{message}(a_u, b_v, c_e, T_{\mathrm{type}(e)})`.

    Args:
        message: Maps rows of the inputs below, by name, to ``[E, d]``.
        edge_index: Sources and targets.
        num_targets: Rows of the result.
        source, target: Values of nodes, ``[num_sources, …]`` and ``[num_targets, …]``.
        edge: Values of edges, ``[E, …]``.
        table: One row per edge type, ``[num_edge_types, …]``, read with ``edge_type [E]``.

    Returns:
        ``[num_targets, d]``.
    """
    u, v = edge_index
    values = {name: value.index_select(0, u) for name, value in source.items()}
    values |= {name: value.index_select(0, v) for name, value in (target or {}).items()}
    values |= edge or {}
    values |= {name: rows_of(value, edge_type) for name, value in (table or {}).items()}
    messages = message(**values)
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)


def rows_of(values: Tensor, edge_type: Tensor | None) -> Tensor:
    """Values of edges: rows of a table if edges have types, else the values themselves."""
    return values if edge_type is None else values.index_select(0, edge_type)


# out[v] = Σ w x[u]


def weighted(x: Tensor, weight: Tensor | None = None) -> Tensor:
    r""":math:`w \, x` of rows ``x [E, d]`` and ``weight [E, 1]``, if it is given."""
    return x if weight is None else weight * x


def neighbor_sum_naive(x: Tensor, edge_index: Pair, num_targets: int, weight: Tensor | None = None) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{(u,v)} w_{uv} \, x_u` for ``x [num_sources, d]`` and ``weight [E]``."""
    edge = {} if weight is None else {"weight": weight.view(-1, 1)}
    return message_sum_naive(weighted, edge_index, num_targets, source={"x": x}, edge=edge)


# out[v] = Σ w s sigmoid(a[u] + b[v] + G[t]) c[u] F[t]


def gated_message(
    c_j: Tensor,
    gate_j: Tensor | None = None,
    gate_i: Tensor | None = None,
    edge_gate: Tensor | None = None,
    edge_factor: Tensor | None = None,
    edge_weight: Tensor | None = None,
    gate_scale: float = 1.0,
) -> Tensor:
    r""":math:`w \, s \, \mathrm{sigmoid}(a + b + G) \odot c \odot F` of whatever is given.

    All are those of edges, in the order c, a, b, G, F, each ``[E, K]``, w ``[E, 1]``, and the number s.
    """
    if gate_j is not None and gate_i is not None:
        logits = gate_j + gate_i
        c_j = gate_scale * torch.sigmoid(logits if edge_gate is None else logits + edge_gate) * c_j
    if edge_factor is not None:
        c_j = edge_factor * c_j
    return weighted(c_j, edge_weight)


def gated_sum_naive(
    c: Tensor,
    edge_index: Pair,
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
        None if edge_gate is None else rows_of(edge_gate, edge_type),
        None if edge_factor is None else rows_of(edge_factor, edge_type),
        None if edge_weight is None else edge_weight.view(-1, 1),
        gate_scale,
    )
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)


# out[v] = Σ w σ(m[u] + V[t])


def relabel_message(
    m_j: Tensor,
    edge_shift: Tensor | None = None,
    edge_weight: Tensor | None = None,
    *,
    act: Callable[[Tensor], Tensor],
) -> Tensor:
    r""":math:`w \, \sigma(m + V)` of whatever is given: of edges, m and V ``[E, K]`` and w ``[E, 1]``."""
    return weighted(act(m_j if edge_shift is None else m_j + edge_shift), edge_weight)


def relabel_sum_naive(
    m: Tensor,
    edge_index: Pair,
    num_targets: int,
    act: Callable[[Tensor], Tensor],
    edge_shift: Tensor | None = None,
    edge_type: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    """The sum of :func:`relabel_message` over the edges into every target; see :func:`relabel_sum`."""
    u, v = edge_index
    shift = None if edge_shift is None else rows_of(edge_shift, edge_type)
    weight = None if edge_weight is None else edge_weight.view(-1, 1)
    messages = relabel_message(m.index_select(0, u), shift, weight, act=act)
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)
