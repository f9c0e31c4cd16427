"""A small set of graphs in the files of the TU collection."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_rings(root: Path, name: str = "RINGS", targets: str = "graph_labels") -> None:
    """Sixty cycles and paths of a few nodes with random labels, mostly 0; every seventh class is wrong."""
    rng = np.random.default_rng(0)
    files: dict[str, list[str]] = {"A": [], "graph_indicator": [], "node_labels": [], targets: []}
    first = 1
    for graph in range(60):
        size, is_ring = int(rng.integers(4, 9)), graph % 2
        files["graph_indicator"] += [str(graph + 1)] * size
        files["node_labels"] += [str(label) for label in rng.integers(0, 8, size) // 7]
        files[targets].append(str(is_ring if graph % 7 else 1 - is_ring))
        nodes = first + np.arange(size)
        for a, b in zip(nodes, np.roll(nodes, -1), strict=True):
            if is_ring or a < b:
                files["A"] += [f"{a}, {b}", f"{b}, {a}"]
        first += size
    (root / "tu" / name).mkdir(parents=True)
    for part, lines in files.items():
        (root / "tu" / name / f"{name}_{part}.txt").write_text("\n".join(lines))
