"""The fused sums on a GPU: how Triton's kernels are given edges; to be imported only where Triton is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import triton_kernels as kernels
from .edges import SortedEdges, pointers

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# A program is a warp with a tile of so many edges and channels. Gathers of a tile don't wait for each other,
# and an atom has up to four bonds; 64 channels of 4 bytes are two cache lines, and 176 leave 16 lanes idle.
EDGES, CHANNELS = 4, 64
# Edges of one type that one program sums: a program per type would be too few.
SLICE = 128


class Order(NamedTuple):
    """Edges in the order of rows that are summed: row i has the edges ``indptr[i]:indptr[i+1]``."""

    indptr: Tensor
    source: Tensor
    target: Tensor
    edge_type: Tensor | None
    weight: Tensor | None


class Loop:
    """A sum over edges by kernels, and its gradients.

    Args:
        edges: Edges sorted by target.
        edge_type: Row of the tables for every edge, ``[E]``; without it there are no tables.
        weight: ``[E]``, without gradients.
    """

    def __init__(self, edges: SortedEdges, edge_type: Tensor | None, weight: Tensor | None) -> None:
        self.fixed = edges.source, edges.target, edges.indptr, edge_type, weight
        self.edges = edges
        self.edge_type = None if edge_type is None else edge_type.long()
        self.weight = weight

    def by_target(self) -> Order:
        indptr, source, target = map(_dense, (self.edges.indptr, self.edges.source, self.edges.target))
        return Order(indptr, source, target, _dense(self.edge_type), _dense(self.weight))

    def by_source(self) -> Order:
        edges = self.edges.by_source()
        assert edges.order is not None
        return self._arranged(edges.order, edges.indptr)

    def by_type(self, num_types: int) -> tuple[Order, Tensor]:
        """Slices of edges of one type, and where each type's slices begin, ``[num_types + 1]``.

        A slice ends where its type does and at every multiple of ``SLICE``: how many there are is known
        without waiting for the device. Some are empty.
        """
        assert self.edge_type is not None
        edge_type, order = self.edge_type.sort(stable=True)
        types = pointers(edge_type, num_types)
        slices = torch.cat([torch.arange(0, len(order), SLICE, device=order.device), types]).sort().values
        return self._arranged(order, slices), torch.searchsorted(slices, types)

    def _arranged(self, order: Tensor, indptr: Tensor) -> Order:
        def arranged(of_edges: Tensor | None) -> Any:
            return None if of_edges is None else of_edges.index_select(0, order)

        edges = self.edges
        return Order(indptr, *map(arranged, (edges.source, edges.target, self.edge_type, self.weight)))

    def sum_to_targets(self, kernel: Any, like: Tensor, *values: Tensor | None, **constants: Any) -> Tensor:
        """The kernel's sum for every target, of the width and type of ``like``."""
        out = like.new_empty(self.edges.num_targets, like.size(1))
        run(kernel, *self.by_target(), *values, out, **constants)
        return out

    def sum_to_tables(
        self, fill: Callable[[Order, Sequence[Tensor | None]], None], tables: Sequence[Tensor | None]
    ) -> None:
        """Write the sums over each type's edges into tables: by slices, which ``fill`` sums, and by type."""
        first = next(table for table in tables if table is not None)
        order, slices = self.by_type(first.size(0))
        sums = [
            None
            if table is None
            else table.new_empty(len(order.indptr) - 1, table.size(1), dtype=_exact(table))
            for table in tables
        ]
        fill(order, sums)
        for table, parts in zip(tables, sums, strict=True):
            if table is not None:
                run(kernels.row_sums, slices, parts, table, edges=8 * EDGES, num_warps=4)


class GatedLoop(Loop):
    r""":math:`\sum_{e=(u,v)} w_e \, s \, \mathrm{sigmoid}(a_u + b_v + G_{t(e)}) \odot c_u \odot F_{t(e)}`
    of a, b, G, c and F; the tables G and F may be ``None``."""

    def __init__(
        self, edges: SortedEdges, edge_type: Tensor | None, weight: Tensor | None, scale: float
    ) -> None:
        super().__init__(edges, edge_type, weight)
        self.scale = scale

    def sum(self, *values: Tensor | None) -> Tensor:
        dense = [*map(_dense, values)]
        return self.sum_to_targets(kernels.gated, dense[3], *dense, SCALE=self.scale)

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        dense = [*map(_dense, values)]
        found = a, b, G, c, F = _empty(needed, dense)

        def fill(order: Order, gate: Tensor | None, c: Tensor | None, F: Tensor | None) -> None:
            run(kernels.gated_gradients, *order, *dense, _dense(grad), gate, c, F, SCALE=self.scale)

        if needed[1]:
            fill(self.by_target(), b, None, None)
        if needed[0] or needed[3]:
            fill(self.by_source(), a, c, None)
        if needed[2] or needed[4]:
            self.sum_to_tables(lambda order, sums: fill(order, sums[0], None, sums[1]), (G, F))
        return found


class MappedLoop(Loop):
    r""":math:`\sum_{e=(u,v)} w_e \, f(x_u, T_{t(e)})` of x and T; f is the product (``"MULTIPLY"``), the sum
    (``"ADD"``), or ``"RELU"`` or ``"TANH"`` of the sum."""

    def __init__(self, edges: SortedEdges, edge_type: Tensor, weight: Tensor | None, kind: str) -> None:
        super().__init__(edges, edge_type, weight)
        self.kind = kind

    def sum(self, *values: Tensor | None) -> Tensor:
        dense = [*map(_dense, values)]
        return self.sum_to_targets(kernels.mapped, dense[0], *dense, KIND=self.kind)

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        dense = [*map(_dense, values)]
        found = x, table = _empty(needed, dense)

        def fill(order: Order, x: Tensor | None, table: Tensor | None) -> None:
            run(kernels.mapped_gradients, *order, *dense, _dense(grad), x, table, KIND=self.kind)

        if needed[0]:
            fill(self.by_source(), x, None)
        if needed[1]:
            self.sum_to_tables(lambda order, sums: fill(order, None, *sums), (table,))
        return found


def run(
    kernel: Any,
    indptr: Tensor,
    *tensors: Tensor | None,
    edges: int = EDGES,
    num_warps: int = 1,
    **constants: Any,
) -> None:
    """Run a kernel on the rows of ``indptr``; the channels are those of the last of its tensors."""
    last = next(tensor for tensor in reversed(tensors) if tensor is not None)
    width = last.size(1)
    block = min(CHANNELS, max(16, triton.next_power_of_2(width)))
    grid = (len(indptr) - 1, triton.cdiv(width, block))
    accumulator = tl.float64 if last.dtype == torch.float64 else tl.float32
    with torch.cuda.device_of(last):
        kernel[grid](
            indptr,
            *tensors,
            width,
            **constants,
            ACC=accumulator,
            EDGES=edges,
            BLOCK=block,
            num_warps=num_warps,
        )


def _dense(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().contiguous()


def _exact(tensor: Tensor) -> torch.dtype:
    """The type that sums are kept in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _empty(needed: Sequence[bool], values: Sequence[Tensor | None]) -> list[Any]:
    """A gradient that is yet to be written for every value that needs one."""
    return [
        torch.empty_like(v) if v is not None and need else None
        for v, need in zip(values, needed, strict=True)
    ]
