from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pandas as pd
import pytest

from tests.inputs.molecules import MOLECULES, ROWS
from wlkernelnn.cli.fingerprint import FingerprintOptions
from wlkernelnn.cli.main import main


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["fingerprint", "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    for field in fields(FingerprintOptions):
        assert re.search(rf"^  --{field.name.replace('_', '-')}\b", out, re.MULTILINE), field.name
    assert "Where fingerprints go" in " ".join(out.split())
    assert "predict" not in out.lower().replace("--preds-path preds_path", "")


def test_every_row_in_order(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"smiles": [smiles for smiles, _ in ROWS.values()], "name": list(ROWS)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    words = {"test": tmp_path / "rows.csv", "model": run_folder / "model_0", "preds": tmp_path / "out.csv"}
    assert main(["fingerprint", *(f"--{name}-path={path}" for name, path in words.items())]) == 0
    assert f"{len(ROWS)} rows in = {sum(MOLECULES)} embedded + " in capsys.readouterr().out
    came = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert came.columns.tolist() == ["smiles", "name", *(f"fp_{i}" for i in range(8))]
    assert came["name"].tolist() == list(ROWS)
    assert (came["fp_7"] != "").tolist() == MOLECULES
