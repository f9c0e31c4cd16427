from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
import torch

from tests.inputs.molecules import regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import PackedLoader, featurize
from wlkernelnn.models import export_inputs

NEW = ["CCO", "C", "CC(=O)Nc1ccc(O)cc1"]


def test_a_file_predicts_what_predict_writes(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.pt2"
    assert main(["export", "--model-path", str(run_folder), "--output-path", str(path)]) == 0
    said = f"2 networks, of x, edge_index, num_nodes, edge_type (features ogb): {path}"
    assert said in capsys.readouterr().out
    pd.DataFrame({"smiles": NEW}).to_csv(tmp_path / "new.csv", index=False)
    words = {"test": tmp_path / "new.csv", "model": run_folder, "preds": tmp_path / "out.csv"}
    assert main(["predict", *(f"--{name}-path={file}" for name, file in words.items())]) == 0
    expected = pd.read_csv(tmp_path / "out.csv")["Act"]

    extra = {"about.json": ""}
    program = torch.export.load(path, extra_files=extra)
    about = json.loads(extra["about.json"])
    assert (about["target_names"], about["task"]) == (["Act"], "regression")
    data, _ = featurize(NEW, features=about["features"], num_workers=0)
    for size in (1, 3):
        with torch.no_grad():
            came = [program.module()(**export_inputs(batch)) for batch in PackedLoader(data, size)]
        assert torch.cat(came)[:, 0].numpy() == pytest.approx(expected.to_numpy(), rel=1e-5)


def test_a_machine_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(tmp_path / "set.csv", regression_set())
    command = f"train --data-path {table} --target-columns Act --model linear --output-dir {tmp_path / 'run'}"
    assert main(command.split()) == 0
    assert main(f"export --model-path {tmp_path / 'run'} --output-path {tmp_path / 'm.pt2'}".split()) == 1
    assert "only networks (model wl or stack)" in capsys.readouterr().err
    card = (tmp_path / "run" / "README.md").read_text()
    assert "A linear machine knows the substructures" in card
