"""What of a molecule's atoms and bonds a kernel compares, as a named choice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wlkernelnn.datasets.molecules.features import get_features
from wlkernelnn.kernels.flat_graphs import FlatGraphs
from wlkernelnn.utils.checks import check_one_of

#: Columns of atoms by the name of the coding. The type of a bond is its edge's type in all of them, and what
#: the node of a ring is, if rings are nodes, is one more column.
CODINGS = {
    "ogb": (
        *("atomic_num", "degree", "formal_charge", "num_h", "num_radical_electrons", "hybridization"),
        *("is_aromatic", "is_in_ring"),
    ),
    "element": ("atomic_num", "is_aromatic"),
    # The invariants of ECFP and FCFP (Rogers and Hahn 2010), as RDKit has them.
    "ecfp": ("atomic_num", "degree", "num_h", "formal_charge", "mass_difference", "is_in_ring"),
    "fcfp": ("pharmacophore",),
}
#: The features that hold the columns of all codings.
FEATURES = "ogb+invariants"


def coded(graphs: FlatGraphs, coding: str | None) -> FlatGraphs:
    """Graphs with the columns of a coding only; as they are without one.

    Raises:
        ValueError: No coding has this name, or the graphs lack its columns.
    """
    if coding is None:
        return graphs
    check_one_of("coding", coding, CODINGS)
    if not len(graphs) and not graphs.features:
        return graphs
    features = get_features(graphs.features) if graphs.features and graphs.edge_type is not None else None
    if features is None or not {*CODINGS[coding]} <= {*features.node_columns}:
        raise ValueError(
            f"coding {coding!r} is one of molecules: give SMILES, or molecules with features={FEATURES!r}; "
            f"got graphs with {f'features {graphs.features!r}' if features else 'features of their own'}"
        )
    assert graphs.x is not None
    assert graphs.edge_type is not None
    # Which ring a node is counts in all of them.
    names = *CODINGS[coding], *features.ring_nodes
    place = [features.node_columns.index(name) for name in names]
    bond_type = features.decode_edge(graphs.edge_type)[..., features.edge_columns.index("bond_type")]
    return replace(graphs, x=np.ascontiguousarray(graphs.x[:, place]), edge_type=bond_type)
