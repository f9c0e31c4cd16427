"""Sum messages over neighbours, at once or a cache-sized block of edges at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import traced

from .edges import SortedEdges
from .fused import FusedSum
from .naive import message_sum_naive
from .segments import bag_sum

# Values of a block: small enough that a message's intermediate results stay in the caches.
BLOCK = 2**18


def message_sum(
    message: Callable[..., Tensor],
    edges: SortedEdges,
    *,
    source: Mapping[str, Tensor],
    target: Mapping[str, Tensor] | None = None,
    edge: Mapping[str, Tensor] | None = None,
    table: Mapping[str, Tensor] | None = None,
    edge_type: Tensor | None = None,
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{e=(u,v)} \mathrm{message}(a_u, b_v, c_e, T_{\mathrm{type}(e)})`.

    Any message will do, also one with parameters or random numbers of its own. See
    :func:`message_sum_naive` for the arguments; values and types of edges are in the order of ``edges``.

    Returns:
        ``[num_targets, d]``.
    """
    return message_sum_naive(
        message,
        edges.pair,
        edges.num_targets,
        source=source,
        target=target,
        edge=edge,
        table=table,
        edge_type=edge_type,
    )


def blocked_sum(
    message: Callable[..., Tensor],
    edges: SortedEdges,
    edge_type: Tensor | None,
    kinds: Mapping[str, str],
    values: Sequence[Tensor | None],
    naive: Callable[..., Tensor],
) -> Tensor:
    """The sum of messages by blocks on a CPU, else ``naive(*values)``; see :class:`BlockedLoop`."""
    on_cpu = all(value is None or value.is_cpu for value in values)
    if traced(*values) or not on_cpu:
        return naive(*values)
    return FusedSum.apply(BlockedLoop(message, edges, edge_type, kinds), naive, *values)


class BlockedLoop:
    """A :class:`~wlkernelnn.ops.graph.fused.Loop` in PyTorch's operations, on a CPU.

    Edges are taken in blocks. The gradients compute a block's messages again: no tensor of size ``[E, d]`` is
    kept or written.

    Args:
        message: Maps rows of the values, by name, to ``[e, d]``; it depends on them alone.
        edges: Edges sorted by target.
        edge_type: ``[E]``, for values that are tables.
        kinds: Name of every value → ``"source"``, ``"target"``, ``"edge"`` or ``"table"``.
    """

    def __init__(
        self,
        message: Callable[..., Tensor],
        edges: SortedEdges,
        edge_type: Tensor | None,
        kinds: Mapping[str, str],
    ) -> None:
        self.message, self.edges, self.edge_type, self.kinds = message, edges, edge_type, kinds
        self.fixed = edges.source, edges.target, edges.indptr, edge_type

    def sum(self, *values: Tensor | None) -> Tensor:
        sums = [block.sum(self.message(**self._taken(block, values))) for block in self._blocks(values)]
        return sums[0] if len(sums) == 1 else torch.cat(sums)

    def gradients(
        self, needed: Sequence[bool], grad: Tensor, *values: Tensor | None
    ) -> Sequence[Tensor | None]:
        names = list(self.kinds)
        wanted = [i for i, need in enumerate(needed) if need]
        totals: list[Any] = [None] * len(values)
        for i in wanted:
            totals[i] = torch.zeros_like(cast(Tensor, values[i]))
        for block in self._blocks(values):
            taken = {name: rows.detach() for name, rows in self._taken(block, values).items()}
            leaves = [taken[names[i]].requires_grad_() for i in wanted]
            with torch.enable_grad():
                out = self.message(**taken)
            found = torch.autograd.grad(out, leaves, block.take("target", grad), allow_unused=True)
            for i, rows in zip(wanted, found, strict=True):
                if rows is not None:
                    block.give(self.kinds[names[i]], totals[i], rows)
        return totals

    def _taken(self, block: _Block, values: Sequence[Tensor | None]) -> dict[str, Tensor]:
        return {
            name: block.take(kind, value)
            for (name, kind), value in zip(self.kinds.items(), values, strict=True)
            if value is not None
        }

    def _blocks(self, values: Sequence[Tensor | None]) -> list[_Block]:
        edges = self.edges
        width = next(value.size(1) for value in values if value is not None)
        step = max(BLOCK // max(width, 1), 256)
        starts = torch.arange(step, max(edges.source.numel(), step), step)
        cuts = torch.searchsorted(edges.indptr, starts).unique().tolist()
        nodes = [0, *(cut for cut in cuts if 0 < cut < edges.num_targets), edges.num_targets]
        bounds = edges.indptr[nodes].tolist()
        spans = zip(nodes[:-1], nodes[1:], bounds[:-1], bounds[1:], strict=True)
        return [_Block(edges, self.edge_type, *span) for span in spans]


class _Block:
    """A run of edges that holds all edges of its targets."""

    def __init__(
        self, edges: SortedEdges, edge_type: Tensor | None, v0: int, v1: int, e0: int, e1: int
    ) -> None:
        self.nodes, self.edges = slice(v0, v1), slice(e0, e1)
        self.indptr = edges.indptr[v0 : v1 + 1] - e0
        self.rows = {"source": edges.source[self.edges], "target": edges.target[self.edges]}
        if edge_type is not None:
            self.rows["table"] = edge_type[self.edges]

    def take(self, kind: str, value: Tensor) -> Tensor:
        return value[self.edges] if kind == "edge" else value.index_select(0, self.rows[kind])

    def give(self, kind: str, total: Tensor, rows: Tensor) -> None:
        """Add the gradients of taken rows to the gradient of what they were taken from."""
        if kind == "edge":
            total[self.edges] = rows
        elif kind == "target":
            total[self.nodes] = self.sum(rows)
        else:
            total.index_add_(0, self.rows[kind], rows)

    def sum(self, messages: Tensor) -> Tensor:
        return bag_sum(messages, torch.arange(messages.size(0)), self.indptr)
