"""Parts of PyG's ``Data``, made without the checks that take longer than the arithmetic."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data


def sorted_edge_index(
    edge_index: Tensor, indptr: Tensor, is_undirected: bool = False, sized: bool = False
) -> EdgeIndex:
    """An :class:`EdgeIndex` sorted by target whose pointers ``indptr [N+1]`` are known already.

    The one place that sets them. PyG takes the largest number on either side for the last node. Where that
    is wrong there is a ``sparse_size``, elsewhere only if it is asked for (batches that PyG makes of such
    graphs need it): with one ``torch.compile`` compiles once per graph size.
    """
    size = indptr.numel() - 1
    if not sized:
        sized = size == 0 or bool(indptr[-1] == indptr[-2])
        sized = sized or (not is_undirected and int(edge_index[0].max()) < size - 1)
    result = EdgeIndex(
        edge_index,
        sparse_size=(size, size) if sized else (None, None),
        sort_order="col",
        is_undirected=is_undirected,
    )
    result._indptr = indptr
    return result


def plain_data(**parts: Any) -> Data:
    """``Data(**parts)``, past its look at every name, which takes as long as all the arithmetic."""
    data = Data()
    data._store._mapping.update(parts)
    return data
