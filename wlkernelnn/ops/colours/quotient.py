"""A batch of graphs with every Weisfeiler-Lehman colour written once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops.spans import bounds_of, places_of
from wlkernelnn.utils.checks import holds_integers

from .refine import numbered
from .seal import Seal


class Level(NamedTuple):
    """The colours of a batch after l ≥ 1 iterations, and what they are made of: colours after l − 1.

    Attributes:
        own: int64 ``[C]``: what each colour was one iteration before.
        source, target: int64 ``[E]``: its neighbours then, and the colour itself, ascending.
        indptr: int64 ``[C + 1]``: the neighbours of colour c are ``source[indptr[c]:indptr[c + 1]]``.
        edge_type: int64 ``[E]``.
    """

    own: Tensor
    source: Tensor
    target: Tensor
    indptr: Tensor
    edge_type: Tensor


class Quotient(NamedTuple):
    """A batch by its colours instead of its nodes.

    A node's state after l steps of a graph network depends on its colour after l iterations alone. One row
    per colour is then enough, and a sum over nodes counts each as often as it occurs.

    Attributes:
        first: int64 ``[C_0]``: a node of each colour 0: whose features they have.
        levels: Levels 1 … depth.
        node: int64 ``[N]``: the colour of every node after the last iteration.
        colour, indptr: int64 ``[P]`` and ``[B + 1]``: the last colours that occur in graph b are
            ``colour[indptr[b]:indptr[b + 1]]``, each once.
        graph: int64 ``[P]``: that graph.
        multiplicity: float32 ``[P]``: how often each occurs there.
        seal: On the tensors of the batch that it was made of, if it is known to be theirs.
    """

    first: Tensor
    levels: tuple[Level, ...]
    node: Tensor
    colour: Tensor
    indptr: Tensor
    graph: Tensor
    multiplicity: Tensor
    seal: Seal | None = None

    @property
    def depth(self) -> int:
        return len(self.levels)


def wl_quotient(
    colours: Sequence[np.ndarray],
    source: np.ndarray,
    indptr: np.ndarray,
    edge_type: np.ndarray,
    graph: np.ndarray,
    num_graphs: int,
) -> Quotient:
    """The quotient of a batch by colours of :func:`~wlkernelnn.ops.colours.wl_colours`.

    The colours may be those of a larger collection; their edge labels must have been ``edge_type``.

    Args:
        colours: After 0 … depth iterations, ``[N]`` each.
        source: ``[E]``, edges sorted by target.
        indptr: ``[N + 1]``: the edges into node v are ``indptr[v] … indptr[v + 1] − 1``.
        edge_type: ``[E]``.
        graph: ``[N]``, ascending.
        num_graphs: B.
    """
    number, first = numbered(colours[0])
    start, levels = first, []
    for colour in colours[1:]:
        before = number
        number, first = numbered(colour)
        edge, target, bounds = _edges_into(first, indptr)
        level = before[first], before[source[edge]], target, bounds, edge_type[edge]
        levels.append(Level(*map(torch.from_numpy, level)))
    # Sorted, pairs of graph and colour stand graph by graph.
    num_colours = max(len(first), 1)
    pairs = np.sort(graph * num_colours + number)
    begin = np.flatnonzero(np.diff(pairs, prepend=-1))
    owner, colour = np.divmod(pairs[begin], num_colours)
    return Quotient(
        first=torch.from_numpy(start),
        levels=tuple(levels),
        node=torch.from_numpy(number),
        colour=torch.from_numpy(colour),
        indptr=torch.from_numpy(np.searchsorted(owner, np.arange(num_graphs + 1))),
        graph=torch.from_numpy(owner),
        multiplicity=torch.from_numpy(np.diff(begin, append=len(pairs)).astype(np.float32)),
    )


def is_of(quotient: Quotient, x: Tensor, edge_index: Tensor, edge_type: Tensor | None, ptr: Tensor) -> bool:
    """Whether a quotient is that of a batch, which may have been changed since.

    Nodes have the codes of their colours 0. The neighbours of a node, with the edges to them, are those of
    its last colour; that this holds for the colours before is in the quotient itself. Neighbours are compared
    by sums of 64 mixed bits.

    Args:
        quotient: The quotient; on another device than the batch it is not of it.
        x: Codes of the nodes, ``[N, F]``.
        edge_index: ``[2, E]``, or what is none of that.
        edge_type: ``[E]``, the same; ``None`` is 0.
        ptr: ``[B + 1]``: the nodes of graph b are ``ptr[b] … ptr[b + 1] − 1``.
    """
    given = [edge_index] if edge_type is None else [edge_index, edge_type]
    if not all(map(holds_integers, given)) or edge_index.shape[:-1] != (2,):
        return False
    if edge_type is not None and edge_type.shape != edge_index.shape[1:]:
        return False
    if quotient.node.device != x.device or quotient.indptr.shape != ptr.shape:
        return False
    num_nodes = quotient.node.numel()
    if num_nodes != x.size(0) or (not num_nodes and edge_index.numel()):
        return False
    # One answer at the end: a GPU is waited for once.
    sizes = torch.zeros_like(quotient.indptr[1:])
    sizes.index_add_(0, quotient.graph, quotient.multiplicity.long())
    same = (sizes == ptr.diff()).all()
    colour = quotient.node
    for level in reversed(quotient.levels):
        colour = level.own.index_select(0, colour)
    same &= (x == x.index_select(0, quotient.first).index_select(0, colour)).all()
    if not quotient.levels:
        return bool(same)
    edges = edge_index.long()
    same &= ((edges >= 0) & (edges < num_nodes)).all()
    source, target = edges.clamp(0, max(num_nodes - 1, 0))
    kind = torch.zeros_like(source) if edge_type is None else edge_type.long()
    last = quotient.levels[-1]
    before = last.own.index_select(0, quotient.node)
    came = _mixed(before.index_select(0, source), kind)
    came = torch.zeros_like(before).index_add_(0, target, came)
    known = torch.zeros_like(last.own).index_add_(0, last.target, _mixed(last.source, last.edge_type))
    return bool(same & (came == known.index_select(0, quotient.node)).all())


def _mixed(colour: Tensor, edge_type: Tensor) -> Tensor:
    """Pairs as numbers whose sums tell multisets apart: much like the last steps of splitmix64."""
    key = edge_type * -0x61C8864680B583EB + colour + 1
    key = (key ^ (key >> 27)) * -0x6B2FB644ECCEEE15
    return key ^ (key >> 31)


def quotient_of(quotient: Quotient, wanted: np.ndarray) -> Quotient:
    """Some of the last colours of a batch and what they are made of, each as a graph of its own.

    Args:
        quotient: A batch, on the CPU.
        wanted: Which last colours, ascending, each once.
    """
    sizes = [quotient.first.numel(), *(level.own.numel() for level in quotient.levels)]
    levels: list[Level] = []
    kept = wanted
    for level, num_before in zip(reversed(quotient.levels), reversed(sizes[:-1]), strict=True):
        edge, target, bounds = _edges_into(kept, level.indptr.numpy())
        own, source = level.own.numpy()[kept], level.source.numpy()[edge]
        needed = np.zeros(num_before, dtype=bool)
        needed[own] = needed[source] = True
        number = np.cumsum(needed) - 1
        lower = number[own], number[source], target, bounds, level.edge_type.numpy()[edge]
        levels.insert(0, Level(*map(torch.from_numpy, lower)))
        kept = np.flatnonzero(needed)
    each = torch.arange(len(wanted))
    return Quotient(
        first=quotient.first[torch.from_numpy(kept)],
        levels=tuple(levels),
        node=each,
        colour=each,
        indptr=torch.arange(len(wanted) + 1),
        graph=each,
        multiplicity=torch.ones(len(wanted)),
    )


def _edges_into(rows: np.ndarray, indptr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The edges into some rows, end to end: which, to which of these rows, and where each row's begin."""
    degree = indptr[rows + 1] - indptr[rows]
    bounds = bounds_of(degree)
    return places_of(indptr[rows], bounds), np.repeat(np.arange(len(rows)), degree), bounds
