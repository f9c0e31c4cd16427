"""The path kernel: paths of a fixed number of nodes, by what stands along them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from wlkernelnn.datasets.graphs.arrays import distinct_rows
from wlkernelnn.kernels.flat_graphs import EDGE_FEATURES, FlatGraphs
from wlkernelnn.kernels.labels import label_columns
from wlkernelnn.kernels.names import Names
from wlkernelnn.kernels.ring_nodes import atoms_alone
from wlkernelnn.ops.spans import bounds_of, places_of
from wlkernelnn.utils.checks import check_count, check_switch

from .count_kernel import CountKernel, Normalization, Occurrences


class PathKernel(CountKernel):
    r"""Counts paths of distinct nodes by the labels along them.

    A path of n nodes :math:`v_1, …, v_n`, all distinct and joined by edges, has the pattern
    :math:`(l(v_1), l(e_1), l(v_2), …, l(v_n))`, read in the direction that is smaller; every path counts
    once. Edges are passed in both directions. On molecules, paths of 4 atoms are topological torsions
    (Nilakantan et al. 1987).

    Args:
        length: Nodes of a path, at least 1.
        edge_labels: Tell edges apart by their ``edge_type``, ``edge_attr`` and ``edge_weight``; else they are
            ignored.
        normalize: See :class:`CountKernel`.
        coding: What of molecules counts as an atom's label: ``"ogb"``, ``"element"``, ``"ecfp"`` or
            ``"fcfp"``; ``None``: all columns of ``x``.

    Takes what :class:`RandomWalkKernel` takes; of edges between the same two nodes those with different
    labels are two ways to go, and equal ones are one. Paths of molecules do not go through nodes of rings.

    Raises:
        ValueError: ``length < 1``, an unknown name, or graphs do not go together.
    """

    def __init__(
        self,
        length: int = 4,
        edge_labels: bool = True,
        normalize: Normalization = None,
        coding: str | None = None,
    ) -> None:
        self.length = length
        self.edge_labels = edge_labels
        self.normalize = normalize
        self.coding = coding

    def _occurrences(self, graphs: FlatGraphs, names: Names) -> Occurrences:
        check_count("length", self.length)
        check_switch("edge_labels", self.edge_labels)
        graphs, atom = atoms_alone(graphs)
        label = names.rows("nodes", label_columns(graphs.x), int(graphs.node_ptr[-1]))
        source, target, types = both_ways(graphs, edge_names(graphs, names, self.edge_labels))
        degree = np.bincount(source, minlength=len(label))
        first = bounds_of(degree)[:-1]
        nodes: list[np.ndarray] = [np.arange(len(label))]
        edges: list[np.ndarray] = []
        for _ in range(self.length - 1):
            bounds = bounds_of(degree[nodes[-1]])
            edge = places_of(first[nodes[-1]], bounds)
            before = np.repeat(np.arange(len(nodes[-1])), np.diff(bounds))
            nodes = [column[before] for column in nodes]
            new = target[edge]
            distinct = np.logical_and.reduce([column != new for column in nodes])
            nodes = [column[distinct] for column in [*nodes, new]]
            edges = [column[before][distinct] for column in edges] + [types[edge][distinct]]
        if self.length > 1:  # each path is there from both ends
            forth = nodes[0] < nodes[-1]
            nodes, edges = [column[forth] for column in nodes], [column[forth] for column in edges]
        along = [label[column] for column in nodes]
        read = [along[0], *(column for step in zip(edges, along[1:], strict=True) for column in step)]
        both = [np.concatenate([column, other]) for column, other in zip(read, read[::-1], strict=True)]
        number = names.rows("patterns", both, 2 * len(nodes[0])).reshape(2, -1)
        return Occurrences(number.min(axis=0), atom[np.stack(nodes, axis=1)])


def edge_names(graphs: FlatGraphs, names: Names, use_labels: bool) -> np.ndarray:
    """One integer per edge, the same for edges of equal type, attributes and weight; or 0 for all."""
    if not use_labels:
        return np.zeros(len(graphs.source), dtype=np.int64)
    columns = [column for name in EDGE_FEATURES for column in label_columns(getattr(graphs, name))]
    return names.rows("edges", columns, len(graphs.source))


def both_ways(graphs: FlatGraphs, types: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges in both directions, each once, sorted by source: sources, targets, types from −1 on, ``[E]``."""
    types = types + 1
    num_nodes, num_types = int(graphs.node_ptr[-1]), int(types.max(initial=0)) + 1
    ends = [(graphs.source, graphs.target), (graphs.target, graphs.source)]
    if num_nodes * num_nodes * num_types > np.iinfo(np.int64).max:
        rows, _ = distinct_rows(np.concatenate([np.stack([*way, types], axis=1) for way in ends]))
        return rows[:, 0], rows[:, 1], rows[:, 2] - 1
    # Digits of one number, which takes a third of the time.
    number = np.sort(pd.unique(np.concatenate([(u * num_nodes + v) * num_types + types for u, v in ends])))
    edge, types = np.divmod(number, num_types)
    return *np.divmod(edge, max(num_nodes, 1)), types - 1
