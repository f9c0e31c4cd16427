"""Sum messages over neighbours, a cache-sized block of edges at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.ops.autograd import counting_writes, transformed

from .edges import SortedEdges
from .segments import bag_sum, segment_sum

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
    parameters: tuple[Tensor, ...] = (),
    pure: bool = True,
) -> Tensor:
    r""":math:`\mathrm{out}_v = \sum_{e=(u,v)} \mathrm{message}(a_u, b_v, c_e, T_{\mathrm{type}(e)})`.

    On a CPU the edges are taken in blocks, forwards and backwards, and the backward pass computes a block's
    messages again: no tensor of size ``[E, d]`` is kept or written. Elsewhere, under ``torch.compile`` and
    transforms of ``torch.func``, for second derivatives and for messages that are not ``pure``, the same sum
    is composed of whole-tensor operations.

    Args:
        message: Maps rows of the inputs below, by name, to ``[e, d]``.
        edges: Edges sorted by target.
        source, target: Values of nodes, ``[num_sources, …]`` and ``[num_targets, …]``.
        edge: Values of edges, ``[E, …]``, in the order of ``edges``.
        table: One row per edge type, ``[num_edge_types, …]``, read with ``edge_type [E]``.
        parameters: Tensors that ``message`` uses beside its inputs and that want gradients.
        pure: ``message`` computes the same again; one that draws random numbers does not.

    Returns:
        ``[num_targets, d]``.
    """
    groups = {"source": source, "target": target or {}, "edge": edge or {}, "table": table or {}}
    names = [(kind, name) for kind, group in groups.items() for name in group]
    values = [groups[kind][name] for kind, name in names]
    by_hand = values[0].is_cpu and not torch.compiler.is_compiling() and not transformed()
    if pure and by_hand:
        return _BlockedSum.apply(message, edges, edge_type, names, *values, *parameters)
    return _whole_sum(message, edges, edge_type, names, values)


def _whole_sum(
    message: Callable[..., Tensor],
    edges: SortedEdges,
    edge_type: Tensor | None,
    names: Sequence[tuple[str, str]],
    values: Sequence[Tensor],
) -> Tensor:
    rows = {"source": edges.source, "target": edges.target}
    if edge_type is not None:
        rows["table"] = edge_type
    messages = message(
        **{
            name: value if kind == "edge" else value.index_select(0, rows[kind])
            for (kind, name), value in zip(names, values, strict=True)
        }
    )
    return segment_sum(messages, edges.indptr, edges.target)


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


def _blocks(edges: SortedEdges, edge_type: Tensor | None, width: int) -> list[_Block]:
    num_edges = edges.source.numel()
    step = max(BLOCK // max(width, 1), 256)
    starts = torch.arange(step, max(num_edges, step), step)
    cuts = torch.searchsorted(edges.indptr, starts).unique().tolist()
    last = edges.indptr.numel() - 1
    nodes = [0, *(cut for cut in cuts if 0 < cut < last), last]
    bounds = edges.indptr[nodes].tolist()
    spans = zip(nodes[:-1], nodes[1:], bounds[:-1], bounds[1:], strict=True)
    return [_Block(edges, edge_type, *span) for span in spans]


class _BlockedSum(torch.autograd.Function):
    # Messages that are computed again are to have the precisions of the first time.
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(
        ctx: Any,
        message: Callable[..., Tensor],
        edges: SortedEdges,
        edge_type: Tensor | None,
        names: list[tuple[str, str]],
        *tensors: Tensor,
    ) -> Tensor:
        values = tensors[: len(names)]
        ctx.message, ctx.edges, ctx.edge_type, ctx.names = message, edges, edge_type, names
        ctx.blocks = _blocks(edges, edge_type, values[0].size(1))
        fixed = counting_writes(edges.source, edges.target, edges.indptr, edge_type)
        ctx.save_for_backward(*tensors, *fixed)
        sums = [
            block.sum(
                message(**{name: block.take(kind, v) for (kind, name), v in zip(names, values, strict=True)})
            )
            for block in ctx.blocks
        ]
        return sums[0] if len(sums) == 1 else torch.cat(sums)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        # All are asked for: that is when autograd sees which edges were written to.
        needed, saved = ctx.needs_input_grad[4:], ctx.saved_tensors
        values, parameters = saved[: len(ctx.names)], saved[len(ctx.names) : len(needed)]
        wanted = [i for i in range(len(values)) if needed[i]]
        trained = [i for i in range(len(values), len(needed)) if needed[i]]
        if torch.is_grad_enabled():  # create_graph=True: this gradient is to be differentiated again
            # Each value under a name of its own: one tensor may stand in two places.
            values = [value.view_as(value) for value in values]
            out = _whole_sum(ctx.message, ctx.edges, ctx.edge_type, ctx.names, values)
            leaves = [(*values, *parameters)[i] for i in wanted + trained]
            grads = torch.autograd.grad(out, leaves, grad, create_graph=True, allow_unused=True)
            found = dict(zip(wanted + trained, grads, strict=True))
            return (None, None, None, None, *(found.get(i) for i in range(len(needed))))
        totals = {i: torch.zeros_like(saved[i]) for i in wanted + trained}
        for block in ctx.blocks:
            taken = [block.take(kind, v) for (kind, _), v in zip(ctx.names, values, strict=True)]
            with torch.enable_grad():
                for i in wanted:
                    taken[i] = taken[i].detach().requires_grad_()
                out = ctx.message(**{name: t for (_, name), t in zip(ctx.names, taken, strict=True)})
            leaves = [taken[i] for i in wanted] + [parameters[i - len(values)] for i in trained]
            rows = torch.autograd.grad(out, leaves, block.take("target", grad), allow_unused=True)
            for i, row in zip(wanted + trained, rows, strict=True):
                if row is None:
                    continue
                if i < len(values):
                    block.give(ctx.names[i][0], totals[i], row)
                else:
                    totals[i] += row
        return (None, None, None, None, *(totals.get(i) for i in range(len(needed))))
