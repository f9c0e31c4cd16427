"""PyG's ``Data``, made without the checks that take longer than the arithmetic, and batches with colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from wlkernelnn.ops.colours import Quotient, Seal


def sorted_edge_index(
    edge_index: Tensor, indptr: Tensor, is_undirected: bool = False, sized: bool = False
) -> EdgeIndex:
    """An :class:`EdgeIndex` sorted by target whose pointers ``indptr [N+1]`` are known already.

    The one place that sets them. PyG takes the largest number on either side for the last node. Where that
    is wrong there is a ``sparse_size``, elsewhere only if it is asked for: with one, ``torch.compile``
    compiles once per graph size.
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


def path_edges(ptr: Tensor) -> EdgeIndex:
    """The edges t → t + 1 inside strings end to end, ``ptr [B+1]``, sorted by target."""
    follows = torch.ones(int(ptr[-1]) + 1, dtype=torch.bool, device=ptr.device)
    follows[ptr] = False
    follows = follows[:-1]
    target = follows.nonzero().view(-1)
    # Every token but the first of a string is the target of exactly one edge.
    indptr = torch.nn.functional.pad(follows.long().cumsum(0), (1, 0))
    # No edge leaves a last token: the size is always needed, and to look would wait for a GPU.
    return sorted_edge_index(torch.stack([target - 1, target]), indptr, sized=True)


def with_edges(data: Data, edge_index: Tensor) -> Data:
    """``data`` with other edges, and without what belongs to those before."""
    if data.edge_index is not None:
        for name in [name for name, _ in data if name != "edge_index" and data.is_edge_attr(name)]:
            del data[name]
    data.edge_index = edge_index
    return data


class ItemOf(NamedTuple):
    """What a single graph of a store knows of it, beside the attributes that PyG sees.

    Attributes:
        features: Name of the columns of ``x``.
        num_columns: How many these are.
        edge_values: What codes of edges stand for, where the store has numbered them.
        node_dims: Number of values of each column of codes.
        num_node_values: Columns of ``x`` after these that are numbers.
        num_edge_types: Number of values of an edge code.
        task, classes: Of the targets.
    """

    features: str
    num_columns: int
    edge_values: tuple[tuple[float, ...], ...]
    node_dims: tuple[int, ...] = ()
    num_node_values: int = 0
    num_edge_types: int = 0
    task: str | None = None
    classes: tuple[str, ...] = ()


def note_item(data: Data, of: ItemOf) -> Data:
    """``data`` with a note, which copies keep and batches do not."""
    vars(data)["_item_of"] = of
    return data


def item_of(data: Data) -> ItemOf | None:
    """The note of :func:`note_item`, if there is one."""
    return vars(data).get("_item_of")


def item_of_codes(data: Data) -> ItemOf | None:
    """The note of :func:`note_item`, if ``x`` still has as many columns of integers."""
    known, x = item_of(data), data.x
    same = known is not None and x is not None and x.dim() == 2 and x.size(1) == known.num_columns
    return known if same and not x.is_floating_point() else None


def shared_features(graphs: Sequence[Data]) -> str:
    """The name of the columns of ``x`` of items of stores; ``""`` if they differ, or ``x`` was changed."""
    names = {"" if (known := item_of_codes(graph)) is None else known.features for graph in graphs}
    return names.pop() if len(names) == 1 else ""


def plain_data(cls: type[Data] = Data, **parts: Any) -> Data:
    """``cls(**parts)``, past its look at every name, which takes as long as all the arithmetic."""
    data = cls()
    data._store._mapping.update(parts)
    return data


class ColouredBatch(Data):
    """A batch with its ``quotient``, which is known to be its own until one of the two is changed.

    Moved to another device by ``to`` or ``cuda``, they still belong together.
    """

    quotient: Quotient

    def seal(self) -> Self:
        """Say that the quotient is that of the batch."""
        self.quotient = self.quotient._replace(seal=Seal(*of_quotient(self), self.batch))
        return self

    def to(self, device: int | str | torch.device, *args: str, non_blocking: bool = False) -> Self:
        own = own_quotient(self) is not None
        moved = super().to(device, *args, non_blocking=non_blocking)
        return moved.seal() if own else moved

    def cuda(self, device: int | str | None = None, *args: str, non_blocking: bool = False) -> Self:
        return self.to("cuda" if device is None else device, *args, non_blocking=non_blocking)


def own_quotient(batch: Data) -> Quotient | None:
    """The quotient that was made with a batch, if neither has been changed since."""
    quotient = batch.get("quotient")
    if (
        isinstance(quotient, Quotient)
        and quotient.seal is not None
        and quotient.seal.holds(*of_quotient(batch), batch.batch)
    ):
        return quotient
    return None


def of_quotient(batch: Data) -> tuple[Any, ...]:
    """What a quotient is made of: codes of nodes, edges as a plain tensor, their types, and ``ptr``."""
    edges = batch.edge_index
    plain = edges.as_tensor() if isinstance(edges, EdgeIndex) else edges
    return batch.x, plain, batch.get("edge_type"), batch.get("ptr")
