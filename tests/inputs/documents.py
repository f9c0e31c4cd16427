"""README and the pages of docs/: their blocks of code, their commands, and small data to run them on."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rdkit import Chem

from tests.inputs.molecules import regression_set

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")])
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(?:^|&& |`)(?:\.venv/bin/)?wlkernelnn ([^`\n&]+)", re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of a page's blocks, in order."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(page.read_text("utf-8"))]


def commands(text: str) -> list[str]:
    """What stands behind ``wlkernelnn`` in a text: in blocks, and inline between backticks."""
    return [found.strip() for found in _COMMAND.findall(text.replace("\\\n", " "))]


def write_data(folder: Path) -> None:
    """Files that pages read, under their names: a few molecules, three small texts."""
    data = regression_set()
    table = pd.DataFrame({"smiles": data.smiles, "logS": data.y[:, 0].numpy()})
    for name in ("measured.csv", "library.csv", "later.csv"):
        table.to_csv(folder / name, index=False)
    thirds = pd.qcut(table["logS"].rank(method="first"), 3, labels=["low", "middle", "high"])
    table.assign(potency=thirds).to_csv(folder / "thirds.csv", index=False)
    (folder / "wanted.smi").write_text("CCO ethanol\n[NH3+]CC(=O)[O-] glycine\n")
    with gzip.open(folder / "vendor.sdf.gz", "wt") as file, Chem.SDWriter(file) as writer:
        for smiles, value in zip(
            [*data.smiles[:40], "CC(=O)[O-].[Na+]"], data.y[:41, 0].tolist(), strict=True
        ):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("logS", str(value))
            writer.write(molecule)
    films = pd.DataFrame({"text": 25 * ["a lovely film", "a dull film"], "label": 25 * ["good", "bad"]})
    films.to_csv(folder / "reviews.csv", index=False)
    esol = {"smiles": table["smiles"], "measured log solubility in mols per litre": table["logS"]}
    (folder / "data" / "moleculenet").mkdir(parents=True)
    pd.DataFrame(esol).to_csv(folder / "data" / "moleculenet" / "delaney-processed.csv", index=False)
    (folder / "data" / "sst" / "trees").mkdir(parents=True)
    for part in ("train", "dev", "test"):
        trees = "(3 (2 A) (4 (3 lovely) (2 film)))\n(1 (2 A) (0 (1 bad) (2 film)))\n" * 4
        (folder / "data" / "sst" / "trees" / f"{part}.txt").write_text(trees)
    (folder / "data" / "ptb").mkdir()
    for part in ("train", "valid", "test"):
        (folder / "data" / "ptb" / f"ptb.{part}.txt").write_text("the cat sat on the mat\n" * 60)


def small_values() -> dict[str, Any]:
    """Names that pages use and do not make: molecules, a graph, strings."""
    data = regression_set()
    graphs = [data[i] for i in range(4)]
    for graph in graphs:
        graph.x = torch.randn(graph.num_nodes, 3, dtype=torch.float64)
        del graph.edge_type
    y = data.y[:, 0].numpy()
    return {
        "smiles": list(data.smiles),
        "y": y,
        "active": y > np.median(y),
        "graphs": graphs,
        "x": torch.randn(4, 64),
        "edge_index": torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        "edge_type": torch.tensor([3, 3, 5, 5]),
        "tokens": torch.randn(7, 300),
        "ptr": torch.tensor([0, 3, 7]),
        "strings": [torch.randn(length, 3, dtype=torch.float64) for length in (4, 6)],
    }
