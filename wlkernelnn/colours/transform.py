"""Colours of the nodes of single graphs, which mean the same in every graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from wlkernelnn.utils.checks import check_count

from .colouring import bits_of_rows, mixed


class Colours(BaseTransform):
    """Adds the Weisfeiler-Lehman colours of a graph's nodes, so that batches of it need not search for them.

    They are ``colours``, int64 ``[N, depth + 1]``: after 0, 1, … iterations, numbers of 64 bits that depend
    on the node and what lies around it alone. Two different colours of a million share a number with a
    probability of 3e-8. As a ``pre_transform`` of a data set it runs once.

    Args:
        depth: Iterations: as many as the network has layers, one more with GCN.
        nodes: Attributes of nodes that are part of the colour: all that the network reads.
        edges: Attributes of edges that are; those that a graph has not are left out.

    Raises:
        ValueError: ``depth`` < 1.
        AttributeError: A graph has not an attribute of ``nodes``, or no ``edge_index``.
    """

    def __init__(
        self,
        depth: int,
        nodes: Sequence[str] = ("x",),
        edges: Sequence[str] = ("edge_attr", "edge_weight", "edge_type"),
    ) -> None:
        self.depth = check_count("depth", depth)
        self.nodes, self.edges = tuple(nodes), tuple(edges)

    def forward(self, data: Data) -> Data:
        for name in self.nodes:
            if data.get(name) is None:
                raise ValueError(f"the graph has no {name}, which nodes={self.nodes} names; () reads none")
        num_nodes = getattr(data, self.nodes[0]).size(0) if self.nodes else data.num_nodes
        source, target = data.edge_index.numpy()
        node = _hash(bits_of_rows([getattr(data, name) for name in self.nodes], num_nodes))
        edge = _hash(
            bits_of_rows([data[name] for name in self.edges if data.get(name) is not None], len(source)), 1
        )
        # Networks may treat an edge from a node to itself by itself.
        edge = mixed(edge + (source == target).astype(np.uint64))
        levels = [node]
        for _ in range(self.depth):
            around = np.zeros_like(node)
            np.add.at(around, target, mixed(edge + mixed(node)[source]))
            node = mixed(mixed(node) + around)
            levels.append(node)
        data.colours = torch.from_numpy(np.stack(levels, axis=1).view(np.int64))
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.depth})"


def _hash(table: np.ndarray, salt: int = 0) -> np.ndarray:
    """A number for each row of unsigned integers; with another salt another."""
    number = mixed(np.full(len(table), salt, dtype=np.uint64))
    for column in table.T:
        number = mixed(number + column)
    return number
