"""The fused sums on a CPU: how numba's kernels are run on threads; to be imported only where numba is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops import compiled

from . import fused
from . import numba_kernels as kernels

DTYPES = (torch.float32, torch.float64)

# Values (edges × channels) that are worth waking a thread for.
GRAIN = 2**17


def _arrays(tensors: Sequence[Tensor | None]) -> list[Any]:
    return [None if tensor is None else tensor.detach().contiguous().numpy() for tensor in tensors]


class Loop(fused.Loop):
    """A sum over edges by kernels, and its gradients."""

    kernel: str
    #: What kernels take for the values.
    arrays: Callable[[Sequence[Tensor | None]], Sequence[Any]] = staticmethod(_arrays)

    def sum(self, *values: Tensor | None) -> Tensor:
        arrays = self.arrays(values)
        out = np.empty((len(self.edges.indptr) - 1, arrays[0].shape[1]), arrays[0].dtype)
        self.run(self.kernel, self.chunks(out.shape[1]), arrays, out)
        return torch.from_numpy(out)

    def gradients(self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None) -> Sequence[Tensor]:
        found = self.gradients_of(needed, self.arrays(values), *_arrays([grad]))
        return [torch.from_numpy(array) for array in found]

    @abstractmethod
    def gradients_of(self, needed: Sequence[bool], arrays: Any, grad: np.ndarray) -> Sequence[np.ndarray]:
        """Gradients of all values, those that are not needed with anything in them."""

    def chunks(self, channels: int) -> int:
        """Number of threads."""
        return compiled.chunks_for(self.edges.source.numel() * channels, GRAIN)

    def run(
        self, kernel: str, chunks: int, values: Sequence[Any], *outs: np.ndarray, by_source: bool = False
    ) -> None:
        """Run a kernel on the edges target by target, or source by source."""
        edges = self.edges
        rows: tuple[Tensor | None, ...] = edges.indptr, edges.source
        if by_source:
            turned = edges.by_source()
            rows = turned.indptr, turned.order, edges.target
        *arrays, edge_type, weight = _arrays([*rows, self.edge_type, self.weight])
        edge_type = np.empty(0, np.int64) if edge_type is None else edge_type
        weight = np.empty(0, values[0].dtype) if weight is None else weight.reshape(-1)
        option = getattr(kernels, self.option) if isinstance(self.option, str) else self.option
        given = (*arrays, edge_type, weight), tuple(values), option, outs
        compiled.run(kernels, kernel, chunks, *given)


class GatedLoop(Loop):
    kernel = "gated"

    def arrays(self, values: Sequence[Tensor | None]) -> Sequence[Any]:
        """With tables in the place of those that are missing, of as many rows as the other."""
        a, b, G, c, F = _arrays(values)
        rows = next((len(table) for table in (G, F) if table is not None), 1)
        G = np.zeros((rows, c.shape[1]), c.dtype) if G is None else G
        F = np.ones((rows, c.shape[1]), c.dtype) if F is None else F
        return a, b, G, c, F

    def gradients_of(self, needed: Sequence[bool], arrays: Any, grad: np.ndarray) -> Sequence[np.ndarray]:
        a, b, G, c, F = arrays
        chunks = self.chunks(c.shape[1])
        of_a, of_b, of_c = np.empty_like(a), np.empty_like(b), np.empty_like(c)
        of_G, of_F = (np.zeros((chunks, *table.shape), table.dtype) for table in (G, F))
        if needed[1]:
            self.run("gated_by_target", chunks, (*arrays, grad), of_b)
        if needed[0] or any(needed[2:]):
            outs = of_a, of_G, of_c, of_F
            self.run("gated_by_source", chunks, (*arrays, grad), *outs, by_source=True)
        return of_a, of_b, of_G.sum(0), of_c, of_F.sum(0)


class MappedLoop(Loop):
    kernel = "mapped"

    def gradients_of(self, needed: Sequence[bool], arrays: Any, grad: np.ndarray) -> Sequence[np.ndarray]:
        x, table = arrays
        chunks = self.chunks(x.shape[1])
        of_x, of_table = np.empty_like(x), np.zeros((chunks, *table.shape), x.dtype)
        self.run("mapped_by_source", chunks, (*arrays, grad), of_x, of_table, by_source=True)
        return of_x, of_table.sum(0)
