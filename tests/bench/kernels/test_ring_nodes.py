"""The benchmark of rings as nodes, on two small sets of MoleculeACE's form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.kernels import ring_nodes
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import featurize
from wlkernelnn.kernels import WLSubtreeKernel
from wlkernelnn.machines import GaussianProcess

NAMES = ring_nodes.DEVELOPMENT[:2]


def test_leave_one_out_errors_with_and_without(tmp_path: Path) -> None:
    (tmp_path / "moleculeace").mkdir()
    data = regression_set()
    frame = pd.DataFrame({"smiles": data.smiles[:40], "y": data.y[:40, 0].double().numpy(), "cliff_mol": 0})
    frame["split"] = np.where(np.arange(40) < 10, "test", "train")
    for name in NAMES:
        frame.to_csv(tmp_path / "moleculeace" / f"{name}.csv", index=False)
    folders = f"--root {tmp_path} --run-dir {tmp_path / 'runs'} --output-dir {tmp_path / 'out'}"
    command = f"benchmark ring-nodes {folders} --models wl-ogb four --sets {' '.join(NAMES)}"
    assert main(command.split()) == 0
    runs = json.loads((tmp_path / "out" / "ring_nodes.json").read_text())["runs"]
    assert [(run["model"], run["data"]) for run in runs] == [
        (model, name) for model in ("wl-ogb", "four") for name in NAMES
    ]
    train = frame[frame["split"] == "train"]
    for column, features in (("without", "ogb+invariants"), ("with", "ogb+invariants+ring_nodes")):
        graphs, _ = featurize(train["smiles"].tolist(), features=features)
        y = train["y"].to_numpy()
        machine = GaussianProcess(WLSubtreeKernel(2, normalize="minmax", coding="ogb")).fit(graphs, y)
        error = np.sqrt(np.mean((machine.leave_one_out()[0] - y) ** 2))
        assert runs[0]["left_out_rmse"][column] == pytest.approx(error, rel=1e-4)
    assert runs[0]["left_out_rmse"]["with"] != runs[0]["left_out_rmse"]["without"]
    page = (tmp_path / "out" / "ring_nodes.md").read_text()
    assert f"| 2 of {len(ring_nodes.SETS)} |" in page
    assert "– | – | – | – |" in page


def test_how_often_errors_are_lower() -> None:
    errors = [(1.0, 0.5), (2.0, 4.0), (1.0, 0.25)]
    runs = [{"left_out_rmse": {"without": one, "with": other}} for one, other in errors]
    assert ring_nodes.ratios(runs).tolist() == [0.5, 2.0, 0.25]
