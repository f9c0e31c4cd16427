"""Files of a set of the Open Graph Benchmark: graphs, labels, SMILES, parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wlkernelnn.datasets.files.number_rows import (
    check_range,
    check_targets,
    fail,
    read_integers,
    read_numbers,
)
from wlkernelnn.datasets.files.table_chunks import text_pieces
from wlkernelnn.datasets.graphs.arrays import bounds_of
from wlkernelnn.datasets.graphs.description import Description
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.molecules.features import get_features
from wlkernelnn.datasets.splits.parts import PARTS

from .ogb_sets import GRAPHS, SPLIT, OGBSet

# Rows of the table of SMILES that are read at once: it has a column for every target, too.
ROWS = 10_000


def read_graphs(folder: Path, smiles: Sequence[str], y: np.ndarray, about: Description) -> PackedGraphs:
    """OGB's own graphs: the numbers of all of them end to end, each bond once."""
    features = get_features(about.features)
    atoms_file, ends_file, bonds_file, nodes_file, edges_file = (folder / name for name in GRAPHS)
    num_nodes = read_integers(nodes_file, 1, len(y), "graphs")[:, 0]
    check_range(nodes_file, num_nodes, 1, None, "a number of nodes")
    num_bonds = read_integers(edges_file, 1, len(y), "graphs")[:, 0]
    check_range(edges_file, num_bonds, 0, None, "a number of edges")

    atoms = _codes(atoms_file, features.node_columns, features.node_dims, num_nodes.sum(), "nodes")
    bonds = _codes(bonds_file, features.edge_columns, features.edge_dims, num_bonds.sum(), "edges")
    ends = read_integers(ends_file, 2, num_bonds.sum(), "edges")
    size = np.repeat(num_nodes, num_bonds)[:, None]
    if (outside := np.argwhere((ends < 0) | (ends >= size))).size:
        line, column = outside[0]
        expected = f"a node of its graph, from 0 to {size[line, 0] - 1}"
        fail(ends_file, line, f"expected {expected}, got {ends[line, column]}")
    if (loops := np.flatnonzero(ends[:, 0] == ends[:, 1])).size:
        fail(ends_file, loops[0], f"expected a bond of two atoms, got one of atom {ends[loops[0], 0]} alone")

    # Each bond is an edge there and one back.
    edges = ends.repeat(2, axis=0)
    edges[1::2] = ends[:, ::-1]
    return PackedGraphs.pack(
        atoms,
        edges.T,
        bounds_of(num_nodes),
        bounds_of(2 * num_bonds),
        edge_type=features.encode_edge(bonds).repeat(2),
        y=y,
        smiles=smiles,
        description=about,
    )


def _codes(path: Path, columns: Sequence[str], dims: Sequence[int], rows: int, of: str) -> np.ndarray:
    codes = read_integers(path, len(dims), rows, of)
    for column, name, size in zip(codes.T, columns, dims, strict=True):
        check_range(path, column, 0, size - 1, f"a code of {name}")
    return codes


def read_labels(path: Path, spec: OGBSet) -> np.ndarray:
    y = read_numbers(path, missing=True)
    if y.shape[1] != spec.num_tasks:
        fail(path, 0, f"expected {spec.num_tasks} target(s) on a line, got {y.shape[1]}")
    if spec.task != "classification":
        check_targets(path, y)
    elif (wrong := np.argwhere(~np.isnan(y) & ~np.isin(y, (0, 1)))).size:
        line, column = wrong[0]
        fail(path, line, f"expected 0 or 1, or nothing for a missing label, got {y[line, column]:g}")
    return y


def read_mapping(path: Path, y: np.ndarray) -> tuple[list[str], tuple[str, ...]]:
    """SMILES of the graphs, and names of the targets: all columns but those of SMILES and ids."""
    header, *_ = next(text_pieces(path, rows=1))
    smiles: list[str] = []
    for _, cells, _ in text_pieces(path, ["smiles"], rows=ROWS):
        smiles += [text.strip() for (text,) in cells]
    if len(smiles) != len(y):
        raise ValueError(f"{path}: has {len(smiles)} rows, expected {len(y)}, the number of graphs")
    names = tuple(name for name in header if name not in ("smiles", "mol_id"))
    if len(names) != y.shape[1]:
        raise ValueError(
            f"{path}: expected a column for each of {y.shape[1]} target(s), smiles and mol_id, got "
            f"{', '.join(map(repr, header))}"
        )
    return smiles, names


def read_parts(folder: Path) -> dict[str, np.ndarray]:
    """OGB's numbers of the graphs of each part."""
    return {part: read_integers(folder / SPLIT / f"{part}.csv.gz", columns=1)[:, 0] for part in PARTS}
