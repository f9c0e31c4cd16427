"""The sums over neighbours as their equations say them: the oracle of the fast versions, and for reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor


def message_sum_naive(
    message: Callable[..., Tensor],
    edge_index: Tensor,
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
        edge_index: ``[2, E]``, source above target, in any order.
        num_targets: Rows of the result.
        source, target: Values of nodes, ``[num_sources, …]`` and ``[num_targets, …]``.
        edge: Values of edges, ``[E, …]``.
        table: One row per edge type, ``[num_edge_types, …]``, read with ``edge_type [E]``.

    Returns:
        ``[num_targets, d]``.
    """
    u, v = edge_index
    values = {name: value[u] for name, value in source.items()}
    values |= {name: value[v] for name, value in (target or {}).items()}
    values |= edge or {}
    values |= {name: value[edge_type] for name, value in (table or {}).items()}
    messages = message(**values)
    return messages.new_zeros(num_targets, messages.size(1)).index_add(0, v, messages)


def neighbor_sum_naive(
    x: Tensor, edge_index: Tensor, num_targets: int, weight: Tensor | None = None
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{(u,v)} w_{uv} \, x_u` for ``x [num_sources, d]`` and ``weight [E]``."""

    def message(x: Tensor, weight: Tensor | None = None) -> Tensor:
        return x if weight is None else weight.unsqueeze(-1) * x

    edge = {} if weight is None else {"weight": weight}
    return message_sum_naive(message, edge_index, num_targets, source={"x": x}, edge=edge)
