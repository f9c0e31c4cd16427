"""States of neighbours, gated, scaled by their edges, and summed."""

from __future__ import annotations

from torch import Tensor

from wlkernelnn.ops.autograd import savable

from .edges import SortedEdges
from .fused import fused_sum, loops_for
from .naive import gated_sum_naive
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

    of whichever factors are given: :func:`gated_sum_naive`, faster. With tables (or nothing) for G and F,
    values of one type take compiled loops over the edges, forwards and backwards: on a CPU where numba is
    installed (the extra ``fast``), float32 and float64, on as many threads as torch has; on a GPU where
    Triton is (it comes with torch's CUDA builds), half precision as well, in float32 arithmetic. The first
    use compiles them, which takes seconds, and keeps them on disk.

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
