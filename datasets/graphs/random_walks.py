"""Random-walk structural encodings: how likely a walk is to be back where it began."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

#: What 1 is where columns of integers are numbers: of a node, see ``num_node_values`` of a store.
UNITS = 255
# Above the error of a sum of products, far below the distance of most probabilities from a tie.
_TIE = 1e-9
# Entries of a dense matrix that the processor's caches hold; numbers of nodes that share a width.
_BLOCK, _STEP = 2**17, 4


def walk_encodings(
    source: np.ndarray, target: np.ndarray, num_nodes: np.ndarray, num_steps: int
) -> np.ndarray:
    r"""The probabilities that a random walk from a node is back there after 1, 2, … steps.

    .. math::
        p_v = \big( (D^{-1} A)_{vv}, \; (D^{-1} A)^2_{vv}, \; \ldots, \; (D^{-1} A)^k_{vv} \big)

    (Dwivedi et al. 2022). A walk follows edges from source to target, each that leaves a node
    with the same probability; where none does it ends, and does not come back.

    Args:
        source, target: Edges ``[E]`` in any order, with nodes counted through all graphs.
        num_nodes: ``[G]``: nodes of each graph; an edge does not leave its graph.
        num_steps: k.

    Returns:
        uint8 ``[ΣV, k]`` in units of 1/255, rounded to the nearest, ties upwards: the same for nodes that an
        isomorphism maps to each other, whatever their numbers.

    Raises:
        ValueError: ``num_steps`` < 1, an edge that is not inside one graph, or a different number of sources
            and targets.
    """
    if num_steps < 1:
        raise ValueError(f"num_steps must be at least 1, got {num_steps}")
    if source.ndim != 1 or source.shape != target.shape:
        shapes = f"{list(source.shape)} and {list(target.shape)}"
        raise ValueError(f"source and target must be [E], got shapes {shapes}")
    graph = np.repeat(np.arange(len(num_nodes)), num_nodes)
    total = len(graph)
    ends = np.concatenate([source, target])
    if ends.size and not 0 <= ends.min() <= ends.max() < total:
        raise ValueError(f"edges have nodes {ends.min()} … {ends.max()}, expected 0 … {total - 1}")
    if (graph[source] != graph[target]).any():
        raise ValueError("an edge goes from one graph to another")
    # Graphs of about one size end to end, so that those of a block are rows of one matrix.
    width = -(-num_nodes // _STEP) * _STEP
    order = np.argsort(width[graph], kind="stable")
    place = np.empty(total, dtype=np.int64)
    place[order] = np.arange(total)
    local = (np.arange(total) - (np.cumsum(num_nodes) - num_nodes)[graph])[order]
    step = 1 / np.bincount(source, minlength=total)[source]
    walk = sparse.csr_array((step, (place[source], place[target])), shape=(total, total))
    result = np.empty((total, num_steps), dtype=np.uint8)
    for begin, end, columns in _blocks(num_nodes, width):
        of_block = walk[begin:end, begin:end]
        node, column = np.arange(end - begin), local[begin:end]
        # Column j: the chance that a walk from this node is now at node j of its graph. That is dense where
        # graphs are small; the walks of a large one may see but a small part of it.
        large = len(node) * columns > _BLOCK
        if large:
            now = sparse.csr_array((np.ones(len(node)), (node, node)), shape=(len(node), len(node)))
        else:
            now = np.zeros((len(node), columns))
            now[node, column] = 1.0
        for number in range(num_steps):
            now = of_block @ now
            back = now.diagonal() if large else now[node, column]
            result[order[begin:end], number] = np.floor(UNITS * back + (0.5 + _TIE))
    return result


def _blocks(num_nodes: np.ndarray, width: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """Blocks of graphs of the same width: their first node, the one after their last, and the width."""
    begin = 0
    for columns in np.unique(width).tolist():
        sizes = num_nodes[width == columns]
        graphs = max(1, _BLOCK // max(1, columns) ** 2)
        for first in range(0, len(sizes), graphs):
            end = begin + int(sizes[first : first + graphs].sum())
            yield begin, end, columns
            begin = end
