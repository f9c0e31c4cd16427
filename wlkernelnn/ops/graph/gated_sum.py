"""States of neighbours, gated, scaled by their edges, and summed."""

from __future__ import annotations

from functools import partial

from torch import Tensor

from .edge_naive import gated_message
from .edges import SortedEdges
from .fused import FusedSum, loops_for
from .message_sum import message_sum
from .neighbor_sum import neighbor_sum


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

    of whichever factors are given. With tables (or nothing) for G and F, values of one type take compiled
    loops over the edges, forwards and backwards: on a CPU where numba is installed (the extra ``fast``),
    float32 and float64, on as many threads as torch has; on a GPU where Triton is (it comes with torch's CUDA
    builds), half precision as well, in float32 arithmetic. The first use compiles them, which takes seconds,
    and keeps them on disk. In every other case, for edge weights that want gradients, and for second
    derivatives, the sum is a :func:`message_sum`.

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
    a, b = gates or (None, None)
    weight = None if edge_weight is None else edge_weight.view(-1)

    def composed(
        a: Tensor | None, b: Tensor | None, edge_gate: Tensor | None, c: Tensor, edge_factor: Tensor | None
    ) -> Tensor:
        at_edges = given(edge_gate=edge_gate, edge_factor=edge_factor)
        return message_sum(
            partial(gated_message, gate_scale=gate_scale),
            edges,
            source=given(c_j=c, gate_j=a),
            target=given(gate_i=b),
            edge=given(edge_weight=None if weight is None else weight.unsqueeze(1))
            | ({} if edge_type is not None else at_edges),
            table={} if edge_type is None else at_edges,
            edge_type=edge_type,
        )

    values = (a, b, edge_gate, c, edge_factor)
    tables = edge_gate is not None or edge_factor is not None
    loops = None if tables and edge_type is None else loops_for(values, weight)
    if loops is None:
        return composed(*values)
    if gates is None:
        loop = loops.MappedLoop(edges, edge_type, weight, "MULTIPLY")
        return FusedSum.apply(loop, lambda c, F: composed(None, None, None, c, F), c, edge_factor)
    loop = loops.GatedLoop(edges, edge_type if tables else None, weight, gate_scale)
    return FusedSum.apply(loop, composed, *values)


def given(**values: Tensor | None) -> dict[str, Tensor]:
    """Those that are not ``None``."""
    return {name: value for name, value in values.items() if value is not None}
