"""Small sets in the layout of OGB's downloads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.datasets import OGB_SETS

SMILES = ["CCO", "c1ccccc1O", "C", "C/C=C/Cl", "N[C@@H](C)C(=O)O", "[Na+].[Cl-]", "CC#N", "O=C=O"]
PARTS = {"train": [7, 0, 2, 3], "valid": [1, 5], "test": [6, 4]}


def write_rows(path: Path, rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_csv(path, header=False, index=False)


def write_split(folder: Path, parts: dict[str, list[int]]) -> None:
    for part, rows in parts.items():
        write_rows(folder / "split" / "scaffold" / f"{part}.csv.gz", rows)


def write_set(root: Path, name: str, smiles: Sequence[str], y: np.ndarray, names: Sequence[str]) -> Path:
    """A set in OGB's layout, by OGB's own featurizer."""
    folder = root / "ogb" / OGB_SETS[name].folder
    graphs = [pytest.importorskip("ogb.utils").smiles2graph(text) for text in smiles]
    rows = {
        "node-feat": np.concatenate([graph["node_feat"] for graph in graphs]),
        "edge": np.concatenate([graph["edge_index"].T[::2] for graph in graphs]),
        "edge-feat": np.concatenate([graph["edge_feat"][::2] for graph in graphs]),
        "num-node-list": [graph["num_nodes"] for graph in graphs],
        "num-edge-list": [len(graph["edge_feat"]) // 2 for graph in graphs],
        "graph-label": y,
    }
    for file, content in rows.items():
        write_rows(folder / "raw" / f"{file}.csv.gz", content)
    write_split(folder, PARTS)
    table = pd.DataFrame(dict(zip(names, y.T, strict=True)) | {"smiles": smiles, "mol_id": "x"})
    (folder / "mapping").mkdir()
    table.to_csv(folder / "mapping" / "mol.csv.gz", index=False)
    return folder
