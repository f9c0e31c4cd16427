"""The benchmark of MoleculeACE: its rows, figures and page, on two small sets of the same form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness import provenance
from wlkernelnn.bench.molecules import moleculeace, moleculeace_table
from wlkernelnn.cli.main import main

NAMES = ("CHEMBL204_Ki", "CHEMBL2835_Ki")
GPS = ("wl-ogb", "six", "all", "sklearn")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sets of 40 molecules, the first ten of test, and what two methods had on them."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "moleculeace").mkdir()
    data = regression_set()
    frame = pd.DataFrame({"smiles": data.smiles[:40], "y": data.y[:40, 0].double().numpy()})
    frame["cliff_mol"] = np.arange(40) % 3 == 0
    frame["cliff_mol"] = frame["cliff_mol"].astype(int)
    frame["split"] = np.where(np.arange(40) < 10, "test", "train")
    for name in NAMES:
        frame.to_csv(folder / "moleculeace" / f"{name}.csv", index=False)
    figures = [(name, method, rmse, 2 * rmse) for name in NAMES for method, rmse in (("A", 0.0), ("B", 1e3))]
    columns = ["dataset", "method", "rmse", "cliff_rmse"]
    pd.DataFrame(figures, columns=columns).to_csv(folder / "moleculeace" / "published.csv", index=False)
    return folder


def run(root: Path, folder: Path, *more: str, sets: Sequence[str] = NAMES) -> dict[str, dict[str, Any]]:
    folders = ["--root", str(root), "--run-dir", str(folder / "runs"), "--output-dir", str(folder)]
    assert main(["benchmark", "moleculeace", "--sets", *sets, *folders, *more]) == 0
    runs = json.loads((folder / "moleculeace.json").read_text())["runs"]
    return {f"{run['model']} {run['data']}": run for run in runs}


def test_table_and_picture(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(root, tmp_path, "--models", *GPS, sets=["CHEMBL204_Ki"])
    runs = run(root, tmp_path, "--models", "six", "svr")
    # The smallest set is the first.
    of_both = ["six", "svr", "best for each set", "A", "B"]
    expected = [
        f"{method} {name}"
        for method in (*GPS, *of_both[1:])
        for name in reversed(NAMES)
        if method in of_both or name == "CHEMBL204_Ki"
    ]
    assert list(runs) == expected
    mine = runs["six CHEMBL204_Ki"]
    assert mine["counts"] == {"train": 30, "test": 10}
    assert mine["published"] == 0
    assert 0 < mine["cliff_rmse"] != mine["rmse"]
    assert 0 <= mine["covered"] <= 1
    assert mine["left_out_rmse"] > 0
    # The same kernel in two machines; scikit-learn's has no priors, and finds another noise.
    assert runs["sklearn CHEMBL204_Ki"]["rmse"] == pytest.approx(mine["rmse"], rel=0.2)
    assert runs["svr CHEMBL204_Ki"]["covered"] is None
    assert runs["best for each set CHEMBL204_Ki"]["method"] == "A"
    text = (tmp_path / "moleculeace.md").read_text()
    assert "![RMSE of each set](moleculeace.png)" in text
    assert (
        "| B (published) | 2 of 30 | 1000.000 | 1000.000 | 1000.000 | 2000.000 | – | – | – | – | – |" in text
    )
    assert "| 0 of 2 |" in text
    assert (tmp_path / "moleculeace.png").read_bytes().startswith(b"\x89PNG")
    # A run that is finished is taken as it is.
    again = run(root, tmp_path, "--models", "six")
    assert again["six CHEMBL204_Ki"]["seconds"] == mine["seconds"]
    assert again.keys() == runs.keys()


def test_the_split_and_the_cliffs_are_those_of_the_file(root: Path, tmp_path: Path) -> None:
    """The error on cliffs is that of the test rows whose ``cliff_mol`` is 1."""
    seen = {}

    def method(train: Any, test: Any) -> tuple[np.ndarray, np.ndarray]:
        seen["rows"] = test.row.tolist()
        off = np.where(test.row.numpy() % 3 == 0, 2.0, 1.0)
        return test.y[:, 0].double().numpy() + off, np.full(len(test), 1.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(moleculeace.MODELS, "six", ("shifted", method))
        found = run(root, tmp_path, "--models", "six")["six CHEMBL204_Ki"]
    assert seen["rows"] == list(range(10))
    assert found["cliff_rmse"] == pytest.approx(2)
    assert found["rmse"] == pytest.approx(np.sqrt((4 * 4 + 6) / 10))
    assert found["covered"] == pytest.approx(0.6)  # 2 deviations off is outside of 90 %


def test_without_published_figures_or_a_set(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    (other / "moleculeace").mkdir(parents=True)
    name = NAMES[0]
    (other / "moleculeace" / f"{name}.csv").write_bytes((root / "moleculeace" / f"{name}.csv").read_bytes())
    assert moleculeace_table.published(str(other)) == ({}, [])
    options = ["--root", str(other), "--run-dir", str(tmp_path / "runs"), "--output-dir", str(tmp_path)]
    options += ["--models", "paths"]
    assert main(["benchmark", "moleculeace", "--sets", name, "--quick", *options]) == 0
    page = (tmp_path / "moleculeace.md").read_text()
    assert page.startswith("# MoleculeACE (quick)")
    assert "| 1 of 30 |" in page
    assert main(["benchmark", "moleculeace", "--sets", *NAMES, *options]) != 0
    assert "CHEMBL2835_Ki.csv is not in" in capsys.readouterr().err
    assert main(["benchmark", "moleculeace", "--sets", "CHEMBL1_Ki", *options]) != 0


def test_development_sets_are_the_smallest() -> None:
    assert len(moleculeace_table.SIZES) == 30
    assert len(moleculeace_table.OTHERS) == 18
    expected = """CHEMBL2835_Ki CHEMBL2047_EC50 CHEMBL1871_Ki CHEMBL4616_EC50 CHEMBL4203_Ki CHEMBL2034_Ki
        CHEMBL1862_Ki CHEMBL262_Ki CHEMBL237_EC50 CHEMBL4005_Ki CHEMBL231_Ki CHEMBL2971_Ki"""
    assert set(moleculeace_table.DEVELOPMENT) == set(expected.split())


def test_published_figures_of_other_sets_stay(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call for one set, by another revision."""
    method = ("mean", lambda train, test: (np.full(len(test), 0.0),))
    monkeypatch.setitem(moleculeace.MODELS, "six", method)
    options = ["--root", str(root), "--output-dir", str(tmp_path)]
    for revision, name in zip("ab", NAMES, strict=True):
        monkeypatch.setattr(provenance, "revision", lambda revision=revision: revision)
        run_dir = str(tmp_path / revision)
        moleculeace.main([*options, "--models", "six", "--sets", name, "--run-dir", run_dir])
    runs = json.loads((tmp_path / "moleculeace.json").read_text())["runs"]
    assert [run["data"] for run in runs if run["model"] == "A"] == list(reversed(NAMES))


def test_machines_know_no_epochs_seeds_or_devices(capsys: pytest.CaptureFixture[str]) -> None:
    for words, message in (
        ("--epochs 3", "--epochs: no row has epochs, got 3"),
        ("--seeds 2", "--seeds: expected 1, since no row has several seeds, got 2"),
        ("--accelerator gpu", "--accelerator: expected one of cpu, got gpu"),
        ("--matmul-precision high", "--matmul-precision: expected one of highest, got high"),
    ):
        for name in ("moleculeace", "ring-nodes", "awd-stability"):
            with suppress(SystemExit):
                assert main(["benchmark", name, *words.split()]) == 1
            assert message in capsys.readouterr().err, name
