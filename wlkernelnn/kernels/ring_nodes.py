"""Molecules whose rings are nodes too: without these nodes, and what nodes have as a share of the atoms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from wlkernelnn.ops.spans import bounds_of

from .flat_graphs import EDGE_FEATURES, FlatGraphs


def atoms_alone(graphs: FlatGraphs) -> tuple[FlatGraphs, np.ndarray]:
    """Graphs without the nodes of rings, and which nodes of the whole graphs are left ``[ΣA]``."""
    if graphs.is_atom is None:
        return graphs, np.arange(int(graphs.node_ptr[-1]))
    left, before = np.flatnonzero(graphs.is_atom), bounds_of(graphs.is_atom)
    bond = graphs.is_atom[graphs.source] & graphs.is_atom[graphs.target]
    flats: dict[str, Any] = {
        name: None if (values := getattr(graphs, name)) is None else values[bond] for name in EDGE_FEATURES
    }
    alone = replace(
        graphs,
        x=None if graphs.x is None else graphs.x[left],
        source=before[graphs.source[bond]],
        target=before[graphs.target[bond]],
        node_ptr=before[graphs.node_ptr],
        edge_ptr=bounds_of(bond)[graphs.edge_ptr],
        is_atom=None,
        **flats,
    )
    return alone, left


def atom_shares(graphs: FlatGraphs) -> tuple[sparse.csr_array, np.ndarray]:
    """How much of what each node has is each atom's ``[ΣA, ΣV]``, and the bounds of graphs' atoms ``[n+1]``.

    An atom has all of its own, and the atoms of a ring have equal shares of what the ring's node has.
    """
    num_nodes = int(graphs.node_ptr[-1])
    if graphs.is_atom is None:
        return sparse.eye_array(num_nodes, format="csr"), graphs.node_ptr
    atoms, before = np.flatnonzero(graphs.is_atom), bounds_of(graphs.is_atom)
    of_ring = ~graphs.is_atom[graphs.source]
    ring, member = graphs.source[of_ring], graphs.target[of_ring]
    size = np.bincount(ring, minlength=num_nodes)
    share = np.concatenate([np.ones(len(atoms)), 1 / size[ring]])
    place = before[np.concatenate([atoms, member])], np.concatenate([atoms, ring])
    return sparse.csr_array((share, place), shape=(len(atoms), num_nodes)), before[graphs.node_ptr]
