"""The fused sums on a GPU: how Triton's kernels are given edges; to be imported only where Triton is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from . import fused
from . import triton_kernels as kernels
from .edges import pointers

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


class Loop(fused.Loop):
    """A sum over edges by kernels, and its gradients."""

    kernel: Any
    kernel_of_gradients: Any
    constant: str  # the option's name

    @abstractmethod
    def by_order(self, *gradients: Any) -> Sequence[Sequence[Tensor | None]]:
        """Those of the gradients of values that are summed by target, by source, and by type: what the kernel
        of gradients takes."""

    def sum(self, *values: Tensor | None) -> Tensor:
        dense = [*map(_dense, values)]
        out = dense[0].new_empty(self.edges.num_targets, dense[0].size(1))
        run(self.kernel, *self.by_target(), *dense, out, **{self.constant: self.option})
        return out

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        dense = [*map(_dense, values)]
        found = [
            torch.empty_like(v) if v is not None and need else None
            for v, need in zip(dense, needed, strict=True)
        ]

        def fill(order: Order, outs: Sequence[Tensor | None]) -> None:
            run(self.kernel_of_gradients, *order, *dense, _dense(grad), *outs, **{self.constant: self.option})

        of_targets, of_sources, tables = self.by_order(*found)
        for order, outs in ((self.by_target, of_targets), (self.by_source, of_sources)):
            if any(out is not None for out in outs):
                fill(order(), outs)
        first = next((table for table in tables if table is not None), None)
        if first is not None:  # by slices of edges of one type, and then by type
            order_of_types, slices = self.by_type(first.size(0))
            shape = len(order_of_types.indptr) - 1, first.size(1)
            sums = [t if t is None else t.new_empty(shape, dtype=_exact(t)) for t in tables]
            fill(order_of_types, sums)
            for table, parts in zip(tables, sums, strict=True):
                if table is not None:
                    run(kernels.row_sums, slices, parts, table, edges=8 * EDGES, num_warps=4)
        return found

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


class GatedLoop(Loop):
    kernel, kernel_of_gradients, constant = kernels.gated, kernels.gated_gradients, "SCALE"

    def by_order(self, *gradients: Any) -> Sequence[Sequence[Tensor | None]]:
        a, b, G, c, F = gradients
        return (b, None, None), (a, c, None), (G, None, F)


class MappedLoop(Loop):
    kernel, kernel_of_gradients, constant = kernels.mapped, kernels.mapped_gradients, "KIND"

    def by_order(self, *gradients: Any) -> Sequence[Sequence[Tensor | None]]:
        x, table = gradients
        return (), (x, None), (None, table)


def gathered_sum(x: Tensor, index: Tensor, indptr: Tensor, weight: Tensor | None) -> Tensor:
    """What :func:`wlkernelnn.ops.graph.neighbor_sum.bag_sum` returns."""
    out = x.new_empty(len(indptr) - 1, x.size(1))
    run(kernels.gathered, *map(_dense, (indptr, index, weight, x)), out)
    return out


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
        sizes = {"ACC": accumulator, "EDGES": edges, "BLOCK": block, "num_warps": num_warps}
        kernel[grid](indptr, *tensors, width, **constants, **sizes)


def _dense(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().contiguous()


def _exact(tensor: Tensor) -> torch.dtype:
    """The type that sums are kept in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
