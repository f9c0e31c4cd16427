"""The fused sums on a CPU: how numba's kernels are run on threads; to be imported only where numba is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops import compiled

from . import numba_kernels as kernels
from .edges import SortedEdges

DTYPES = (torch.float32, torch.float64)

# Values (edges × channels) that are worth waking a thread for.
GRAIN = 2**17


class Loop(ABC):
    """A sum over edges by kernels, and its gradients.

    Args:
        edges: Edges sorted by target.
        edge_type: Row of the tables for every edge, ``[E]``; without it there are no tables.
        weight: ``[E]``, without gradients.
    """

    def __init__(self, edges: SortedEdges, edge_type: Tensor | None, weight: Tensor | None) -> None:
        self.fixed = edges.source, edges.target, edges.indptr, edge_type, weight
        self.edges = edges
        self.edge_type = np.empty(0, np.int64) if edge_type is None else _array(edge_type.long())
        self.weight = None if weight is None else _array(weight.view(-1))

    def sum(self, *values: Tensor | None) -> Tensor:
        return torch.from_numpy(self.sum_of_arrays(*map(_array, values)))

    def gradients(self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None) -> Sequence[Tensor]:
        found = self.gradients_of_arrays(needed, _array(grad), *map(_array, values))
        return [torch.from_numpy(array) for array in found]

    @abstractmethod
    def sum_of_arrays(self, *values: Any) -> np.ndarray:
        """The sum of arrays, one per value; ``None`` for a table that is not there."""

    @abstractmethod
    def gradients_of_arrays(self, needed: Sequence[bool], grad: Any, *values: Any) -> tuple[np.ndarray, ...]:
        """Gradients of all values, those that are not needed with anything in them."""

    def by_target(self, dtype: np.dtype) -> tuple[np.ndarray, ...]:
        return _array(self.edges.indptr), _array(self.edges.source), self.edge_type, self._weight(dtype)

    def by_source(self, dtype: np.dtype) -> tuple[np.ndarray, ...]:
        indptr, order = kernels.by_source(_array(self.edges.source), self.edges.num_sources)
        return indptr, order, _array(self.edges.target), self.edge_type, self._weight(dtype)

    def _weight(self, dtype: np.dtype) -> np.ndarray:
        return np.empty(0, dtype) if self.weight is None else self.weight

    def new(self, like: np.ndarray) -> np.ndarray:
        """An array for a value of every target, of the width and type of a value of the sources."""
        return np.empty((self.edges.num_targets, like.shape[1]), like.dtype)

    def chunks(self, channels: int) -> int:
        """Number of threads."""
        return compiled.chunks_for(self.edges.source.numel() * channels, GRAIN)

    def run(self, kernel: str, chunks: int, *arguments: Any) -> None:
        compiled.run(kernels, kernel, chunks, *arguments)


class GatedLoop(Loop):
    r""":math:`\sum_{e=(u,v)} w_e \, s \, \mathrm{sigmoid}(a_u + b_v + G_{t(e)}) \odot c_u \odot F_{t(e)}`
    of a, b, G, c and F; the tables G and F may be ``None``."""

    def __init__(
        self, edges: SortedEdges, edge_type: Tensor | None, weight: Tensor | None, scale: float
    ) -> None:
        super().__init__(edges, edge_type, weight)
        self.scale = scale

    def sum_of_arrays(self, *values: Any) -> np.ndarray:
        a, b, G, c, F = _with_tables(*values)
        out = self.new(like=c)
        scale = c.dtype.type(self.scale)
        self.run("gated", self.chunks(c.shape[1]), self.by_target(c.dtype), scale, (a, b, G, c, F), out)
        return out

    def gradients_of_arrays(self, needed: Sequence[bool], grad: Any, *values: Any) -> tuple[np.ndarray, ...]:
        a, b, G, c, F = _with_tables(*values)
        chunks, scale = self.chunks(c.shape[1]), c.dtype.type(self.scale)
        grad_a, grad_b, grad_c = np.empty_like(a), np.empty_like(b), np.empty_like(c)
        grad_G, grad_F = np.zeros((chunks, *G.shape), G.dtype), np.zeros((chunks, *F.shape), F.dtype)
        if needed[1]:
            self.run("gated_by_target", chunks, self.by_target(c.dtype), scale, (a, b, G, c, F), grad, grad_b)
        if needed[0] or any(needed[2:]):
            grads = (grad_a, grad_G, grad_c, grad_F)
            self.run("gated_by_source", chunks, self.by_source(c.dtype), scale, (a, b, G, c, F), grad, grads)
        return grad_a, grad_b, grad_G.sum(0), grad_c, grad_F.sum(0)


class MappedLoop(Loop):
    r""":math:`\sum_{e=(u,v)} w_e \, f(x_u, T_{t(e)})` of x and T; f is the product (``"MULTIPLY"``), the sum
    (``"ADD"``), or ``"RELU"`` or ``"TANH"`` of the sum."""

    def __init__(self, edges: SortedEdges, edge_type: Tensor, weight: Tensor | None, kind: str) -> None:
        super().__init__(edges, edge_type, weight)
        self.kind = getattr(kernels, kind)

    def sum_of_arrays(self, *values: Any) -> np.ndarray:
        x, _ = values
        out = self.new(like=x)
        self.run("mapped", self.chunks(x.shape[1]), self.by_target(x.dtype), self.kind, values, out)
        return out

    def gradients_of_arrays(self, needed: Sequence[bool], grad: Any, *values: Any) -> tuple[np.ndarray, ...]:
        x, table = values
        chunks = self.chunks(x.shape[1])
        grad_x, grad_table = np.empty_like(x), np.zeros((chunks, *table.shape), x.dtype)
        grads = (grad_x, grad_table)
        self.run("mapped_by_source", chunks, self.by_source(x.dtype), self.kind, values, grad, grads)
        return grad_x, grad_table.sum(0)


def _with_tables(
    a: np.ndarray, b: np.ndarray, G: np.ndarray | None, c: np.ndarray, F: np.ndarray | None
) -> tuple[np.ndarray, ...]:
    """Tables in the place of those that are missing, of as many rows as the other."""
    rows = next((len(table) for table in (G, F) if table is not None), 1)
    shape = (rows, c.shape[1])
    G = np.zeros(shape, c.dtype) if G is None else G
    F = np.ones(shape, c.dtype) if F is None else F
    return a, b, G, c, F


def _array(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.detach().contiguous().numpy()
