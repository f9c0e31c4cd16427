"""A batch by its Weisfeiler-Lehman colours, for any layer of PyG."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import scatter

from wlkernelnn.ops.colours import Quotient, wl_colours, wl_quotient
from wlkernelnn.ops.colours.refine import numbered
from wlkernelnn.ops.graph import SortedEdges, neighbor_sum
from wlkernelnn.ops.graph.edges import sort_edges


class Step(NamedTuple):
    """The edges from the colours of a level to those of the next, as a bipartite graph.

    Attributes:
        own: int64 ``[C']``: what each colour of the next level is on this one.
        edge_index: int64 ``[2, E']``: a colour of this level above one of the next.
        kind: int64 ``[E']``: the kind of each edge, a row of :meth:`Colouring.edge`.
        size: C and C'.
        edges: The same edges, sorted by target, as the sums of this package take them.
    """

    own: Tensor
    edge_index: Tensor
    kind: Tensor
    size: tuple[int, int]
    edges: SortedEdges

    def lift(self, h: Tensor) -> Tensor:
        """States of this level's colours as rows of the next level: ``[C, …]`` → ``[C', …]``."""
        return h.index_select(0, self.own)


class Colouring:
    """A batch of graphs with each colour written once: what a network computes on instead of the nodes.

    The state of a node after l layers of message passing depends on its colour after l iterations alone. So
    it is computed once for every colour of level l, along the edges of ``steps[l - 1]``::

        h = colouring.node(x)
        for conv, step in zip(convs, colouring.steps):
            h = conv((h, step.lift(h)), step.edge_index, edge_attr=colouring.edge(edge_attr)[step.kind])
        y = colouring.pool(h, len(convs), "sum")

    Args:
        quotient: The colours. Its ``edge_type`` are the kinds of edges.
        edge_index: int64 ``[2, E]``: the edges by nodes.
        edge_kind: int64 ``[E]``: the kind of every edge of the batch.
        edge_first: int64 ``[K]``: an edge of each kind.
        loops: bool ``[K]``: whether edges of this kind join a node to itself; ``None``: there are no such.
    """

    def __init__(
        self,
        quotient: Quotient,
        edge_index: Tensor,
        edge_kind: Tensor,
        edge_first: Tensor,
        loops: Tensor | None = None,
    ) -> None:
        self.quotient, self.edge_index, self.loops = quotient, edge_index, loops
        self.edge_kind, self.edge_first = edge_kind, edge_first
        #: Layers that were compared with themselves by nodes, in which cases, as in training or not, and how
        #: many batches could not tell; −1: one could.
        self.checked: WeakKeyDictionary[MessagePassing, dict[object, int]] = WeakKeyDictionary()
        #: From each level to the next.
        self.steps: list[Step] = []
        sources = quotient.first.numel()
        for own, source, target, indptr, kind in quotient.levels:
            edges = SortedEdges(source, target, indptr, sources, None)
            pair = torch.stack([source, target])
            self.steps.append(Step(own, pair, kind, (sources, own.numel()), edges))
            sources = own.numel()

    @property
    def num_nodes(self) -> int:
        return self.quotient.node.numel()

    @property
    def num_edges(self) -> int:
        return self.edge_kind.numel()

    @property
    def has_single_row(self) -> bool:
        """Whether all nodes, after some iteration, or all edges are alike."""
        return self.count("edge") == 1 or any(
            self.count("node", level) == 1 for level in range(len(self.steps) + 1)
        )

    @cached_property
    def _nodes(self) -> list[Tensor]:
        """The colour of every node on each level, ``[N]``."""
        colours = [self.quotient.node]
        for step in reversed(self.steps):
            colours.insert(0, step.own.index_select(0, colours[0]))
        return colours

    @cached_property
    def weights(self) -> list[Tensor]:
        """How many nodes have each colour, ``[C]``, on each level."""
        return [node.bincount(minlength=self.count("node", level)) for level, node in enumerate(self._nodes)]

    @cached_property
    def edge_weights(self) -> Tensor:
        """How many edges are of each kind, ``[K]``."""
        return self.edge_kind.bincount(minlength=self.edge_first.numel())

    def count(self, rows: str, level: int = 0) -> int:
        """The number of rows of a level ("node"), or of kinds ("edge")."""
        ends = [self.quotient.first.numel(), *(step.size[1] for step in self.steps)]
        return ends[level] if rows == "node" else self.edge_first.numel()

    def shape(self, value: Tensor, rows: str) -> torch.Size:
        """The shape that rows of a level ("node") or of kinds ("edge") have by nodes or edges."""
        return torch.Size([self.num_nodes if rows == "node" else self.num_edges, *value.shape[1:]])

    def node(self, value: Tensor) -> Tensor:
        """Inputs of nodes ``[N, …]`` as rows of level 0."""
        return value.index_select(0, self.quotient.first)

    def edge(self, value: Tensor) -> Tensor:
        """Inputs of edges ``[E, …]`` as rows of their kinds ``[K, …]``."""
        return value.index_select(0, self.edge_first)

    def lift(self, h: Tensor, low: int, high: int) -> Tensor:
        """Rows of level ``low`` as rows of level ``high``."""
        if low == high:
            return h
        own = self.steps[high - 1].own
        for step in reversed(self.steps[low : high - 1]):
            own = step.own.index_select(0, own)
        return h.index_select(0, own)

    def nodes(self, h: Tensor, level: int) -> Tensor:
        """Rows of a level as rows of nodes, ``[N, …]``."""
        return h.index_select(0, self._nodes[level])

    def edges(self, value: Tensor) -> Tensor:
        """Rows of kinds as rows of edges, ``[E, …]``."""
        return value.index_select(0, self.edge_kind)

    def pool(self, h: Tensor, level: int, reduce: str, size: int | None = None) -> Tensor:
        """The sum, mean, max or min over the nodes of each graph, of rows of a level: ``[B, …]``."""
        quotient = self.quotient
        h, shape = self.lift(h, level, len(self.steps)), h.shape[1:]
        h = h.flatten(1) if h.dim() > 1 else h.unsqueeze(1)
        num_graphs = quotient.indptr.numel() - 1
        of_floats = h.is_floating_point()
        if of_floats and reduce in ("sum", "add", "mean"):
            members = SortedEdges(quotient.colour, quotient.graph, quotient.indptr, h.size(0), None)
            out = neighbor_sum(h, members, quotient.multiplicity)
            if reduce == "mean":
                counts = torch.zeros_like(quotient.multiplicity[:1]).expand(num_graphs)
                counts = counts.index_add(0, quotient.graph, quotient.multiplicity)
                out = out / counts.clamp(min=1).to(out.dtype).unsqueeze(1)
        else:
            # A row per node: nodes that are all the largest share the gradient.
            often = quotient.multiplicity.long()
            graph = quotient.graph.repeat_interleave(often)
            rows = h.index_select(0, quotient.colour.repeat_interleave(often))
            if of_floats:
                index, out = graph.unsqueeze(1).expand(-1, h.size(1)), h.new_zeros(num_graphs, h.size(1))
                out = out.scatter_reduce(0, index, rows, f"a{reduce}", include_self=False)
            else:
                out = scatter(rows, graph, 0, num_graphs, reduce)
        if size is not None:
            out = torch.nn.functional.pad(out, (0, 0, 0, size - num_graphs))
        return out.view(-1, *shape)


def colour_batch(
    depth: int,
    edge_index: Tensor,
    batch: Tensor,
    nodes: Sequence[Tensor],
    edges: Sequence[Tensor] = (),
    colours: Tensor | None = None,
) -> Colouring:
    """Colour a batch: nodes whose inputs are equal have the same colour at the start, edges the same kind.

    Args:
        depth: Iterations.
        edge_index: ``[2, E]``, source above target.
        batch: int64 ``[N]``: the graph of every node, ascending.
        nodes: What is known of nodes, ``[N, …]`` each, of any type. Rows are compared bit by bit.
        edges: What is known of edges, ``[E, …]`` each.
        colours: int64 ``[N, L + 1]`` of the transform :class:`Colours`, taken if they are long enough
            and still those of the batch.
    """
    num_nodes = batch.numel()
    if edge_index.numel() and (least := int(edge_index.min())) < 0:
        raise ValueError(f"edge_index has node {least}, expected 0 … {num_nodes - 1}")
    sorted_edges = sort_edges(edge_index, num_nodes, num_nodes)
    source, target, order = sorted_edges.source, sorted_edges.target, sorted_edges.order
    indptr = sorted_edges.indptr.cpu().numpy()
    loop = (edge_index[0] == edge_index[1]).cpu().numpy()
    told = [*edges, torch.from_numpy(loop)] if loop.any() else edges
    kind, first = numbered_rows(told, len(loop))
    ends = [side.cpu().numpy() for side in (source, target)]
    of_sorted = kind if order is None else kind[order.cpu().numpy()]
    label, _ = numbered_rows(nodes, num_nodes)
    owner = batch.cpu().numpy()
    num_graphs = int(owner[-1]) + 1 if num_nodes else 0

    levels: Sequence[np.ndarray] = []
    if colours is not None and colours.size(1) > depth and len(colours) == num_nodes:
        levels = list(colours[:, : depth + 1].cpu().numpy().T)
    if not levels or not _are_colours(levels, label, ends[0], indptr, of_sorted):
        levels = wl_colours(label, ends[0], ends[1], depth, of_sorted)
    quotient = wl_quotient(levels, ends[0], indptr, of_sorted, owner, num_graphs)
    found = Data(
        quotient=quotient,
        edge_kind=torch.from_numpy(kind),
        edge_first=torch.from_numpy(first),
        loops=torch.from_numpy(loop[first]) if loop.any() else None,
    ).to(batch.device)
    return Colouring(found.quotient, edge_index, found.edge_kind, found.edge_first, found.get("loops"))


def _are_colours(
    levels: Sequence[np.ndarray], label: np.ndarray, source: np.ndarray, indptr: np.ndarray, kind: np.ndarray
) -> bool:
    """Whether nodes of a colour are alike: they may have changed since it was found.

    On every level, they have the same colour, and the same neighbours, of the level before. Neighbours are
    compared by sums of 64 mixed bits.
    """
    alike = [label]
    for level, colour in enumerate(levels):
        number, first = numbered(colour)
        one = first[number]
        if any((value != value[one]).any() for value in alike):
            return False
        if level + 1 < len(levels):
            pairs = mixed(mixed(number.astype(np.uint64))[source] + kind.astype(np.uint64))
            total = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(pairs, dtype=np.uint64)])
            alike = [number, total[indptr[1:]] - total[indptr[:-1]]]
    return True


def mixed(value: np.ndarray) -> np.ndarray:
    """The steps of splitmix64 (Steele et al. 2014): one to one, and far from linear."""
    value = value + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def numbered_rows(values: Sequence[Tensor], num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows numbered by what they are, bit by bit, and where each occurs first; no values: all are alike."""
    table = bits_of_rows(values, num_rows)
    # Sums of products with odd numbers mix the upper bits well; collisions are found below.
    factors = np.random.default_rng(0).integers(2**63, size=table.shape[1], dtype=np.uint64)
    mixed = table @ (factors * np.uint64(2) + np.uint64(1))
    number, first = numbered(mixed ^ (mixed >> np.uint64(32)))
    if (table != table[first[number]]).any():
        _, first, number = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return number, first


def bits_of_rows(values: Sequence[Tensor], num_rows: int) -> np.ndarray:
    """The bits of every row of some tensors ``[N, …]`` side by side, uint64 ``[N, words]``."""
    return np.concatenate([np.zeros((num_rows, 0), dtype=np.uint64), *map(_bits, values)], axis=1)


def _bits(value: Tensor) -> np.ndarray:
    flat = value.detach().cpu().reshape(len(value), -1 if value.numel() else 0)
    rows = flat.contiguous().view(torch.uint8).numpy()
    unit = next(size for size in (8, 4, 2, 1) if rows.shape[1] % size == 0)
    return rows.view(f"u{unit}").astype(np.uint64, copy=False)
