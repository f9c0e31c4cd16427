"""Rings as nodes of a molecule's graph: behind the atoms one for each ring, joined to each of its atoms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from wlkernelnn.ops.spans import bounds_of

from .additions import SIZES
from .features import RING_NODE, Features, get_features
from .rdkit_reader import Molecules

if TYPE_CHECKING:
    from wlkernelnn.datasets.graphs.packed import PackedGraphs


def ring_codes(ring_sizes: np.ndarray, aromatic: np.ndarray) -> np.ndarray:
    """The code of each ring in the column ``ring_node``, by its size and whether it is aromatic ``[R]``."""
    return 1 + 2 * np.searchsorted(SIZES, ring_sizes) + aromatic


def with_ring_nodes(
    part: dict[str, np.ndarray], features: Features, read: Molecules, bonds: np.ndarray
) -> dict[str, np.ndarray]:
    """The arrays of some molecules (see :mod:`.chunks`), with a node for each ring.

    Args:
        part: Of the atoms alone, whose code in the column ``ring_node`` is 0.
        features: Say where this column is, and the edge code of a ring and its atom.
        read: The molecules, with their rings.
        bonds: The edge codes of the bonds around the first ring, around the second, …
    """
    num_atoms, num_edges = read.num_atoms, 2 * (read.num_bonds + read.num_members)
    num_nodes = num_atoms + read.num_rings
    start, atom_start = np.cumsum(num_nodes) - num_nodes, np.cumsum(num_atoms) - num_atoms
    # Where atoms and rings stand in the end.
    atom = np.arange(num_atoms.sum()) + np.repeat(start - atom_start, num_atoms)
    ring = np.delete(np.arange(num_nodes.sum()), atom)
    target = np.repeat(atom, part["in_degree"])
    source = part["source"] + np.repeat(start, 2 * read.num_bonds)
    hub = np.repeat(ring, read.ring_sizes)
    around = read.members + np.repeat(start, read.num_members)
    target, source = np.concatenate([target, hub, around]), np.concatenate([source, around, hub])
    edge_type = np.concatenate([part["edge_type"], np.full(2 * len(hub), features.ring_edge)])
    order = np.lexsort((source, target))

    # The type of a bond is the first of its columns.
    of_type = features.decode_edge(bonds)[:, 0] == features.bond[0].values.index("AROMATIC")
    aromatic = np.logical_and.reduceat(of_type, bounds_of(read.ring_sizes)[:-1])
    kinds, kind = np.unique(ring_codes(read.ring_sizes, aromatic), return_inverse=True)
    rows = np.zeros((len(kinds), part["node_table"].shape[1]), dtype=np.int64)
    rows[:, features.node_columns.index(RING_NODE)] = kinds
    node_type = np.empty(len(atom) + len(ring), dtype=np.int64)
    node_type[atom] = part["node_type"]
    node_type[ring] = len(part["node_table"]) + kind
    return part | {
        "node_type": node_type,
        "node_table": np.concatenate([part["node_table"], rows]),
        "source": source[order] - np.repeat(start, num_edges),
        "in_degree": np.bincount(target, minlength=len(node_type)),
        "edge_type": edge_type[order],
        "num_nodes": num_nodes,
        "num_edges": num_edges,
    }


def are_atoms(x: np.ndarray, features: str) -> np.ndarray | None:
    """Which nodes are atoms and not rings ``[ΣV]``, by their codes; ``None``: all are."""
    if f"+{RING_NODE}s" not in features:
        return None
    return np.asarray(x[:, get_features(features).node_columns.index(RING_NODE)] == 0)


def num_atoms(data: PackedGraphs) -> np.ndarray:
    """How many nodes of each molecule are atoms, int64 ``[len(data)]``."""
    sizes: np.ndarray = data.num_nodes_per_graph
    arrays = data.arrays
    if (of_table := are_atoms(arrays.node_table.numpy(), data.description.features)) is None:
        return sizes
    ptr = arrays.node_ptr.numpy()
    before = np.concatenate([[0], np.cumsum(of_table[arrays.node_type.numpy()])])
    return before[ptr[data.index + 1]] - before[ptr[data.index]]
