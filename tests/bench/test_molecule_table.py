from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.molecules import classification_set, regression_set
from wlkernelnn.bench.molecule_table import Model, MoleculeTask, _few, run_table
from wlkernelnn.datasets import PackedGraphs, random_split
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

OPTIONS = FitOptions(epochs=2, batch_size=16)
MODELS = {
    "wl": Model("WL", {"hidden_channels": 8, "num_iterations": 2}, GraphKernelNetwork),
    "both": Model("stacks", {"hidden_channels": 8, "num_layers": 2}, members=2),
}


def load(root: str | None = None, **options: Any) -> PackedGraphs:
    assert options == {"features": "ogb"}
    data = regression_set()
    return PackedGraphs(data.arrays, data.description, random_split(len(data), seed=5))


def absent(root: str | None = None, **options: Any) -> PackedGraphs:
    raise FileNotFoundError("nowhere")


TASKS = {
    "here": MoleculeTask(OPTIONS, MODELS, ("random", "published"), {"published": "0.5"}, load=load),
    "absent": MoleculeTask(OPTIONS, MODELS, load=absent),
}


def run(folder: Path, *options: str) -> dict[str, Any]:
    arguments = ["--run-dir", str(folder / "runs"), "--output-dir", str(folder), *options]
    run_table("some-table", "Title", TASKS, arguments, "What it does.", legend="* more\n", seeds=2)
    result: dict[str, Any] = json.loads((folder / "some_table_here.json").read_text())
    return result


def test_a_row_per_set_split_and_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(tmp_path)["runs"]
    assert [(r["split"], r["set_seed"], r["model"]) for r in runs] == [
        (split, seed, model) for split in ("random", "published") for seed in (0, 1) for model in MODELS
    ]
    both = runs[1]
    assert both["parameters"] == 2 * both["member_parameters"][0]
    assert [member["seed"] for member in both["members"]] == [0, 1000]
    # Each seed draws its own random split; that of the file stays.
    hashes = [r["split_sha256"] for r in runs[::2]]
    assert hashes[0] != hashes[1]
    assert hashes[2] == hashes[3]
    text = (tmp_path / "some_table_here.md").read_text()
    assert text.startswith("# Title: here (full)\n")
    lines = [line for line in text.splitlines() if line.startswith("| some ")]
    assert len(lines) == 4
    assert lines[2].startswith("| some | published | WL | ")
    assert " | 2 | 2 | rmse | " in lines[2]
    assert " | 0.5 | " in lines[2]
    assert "* more\n" in text
    out = capsys.readouterr().out
    assert "Title: here (full)" in out
    assert "Not at hand, so left out: absent." in out
    assert not (tmp_path / "some_table_absent.md").exists()
    # All is there: nothing is trained again.
    assert [r["seconds"] for r in run(tmp_path)["runs"]] == [r["seconds"] for r in runs]


def test_a_single_set_has_the_tables_name(tmp_path: Path) -> None:
    tasks = {"here": TASKS["here"]}
    run_table("one", "Title", tasks, f"--quick --output-dir {tmp_path} --run-dir {tmp_path}".split(), None)
    assert (tmp_path / "one.md").read_text().startswith("# Title (quick)\n")


def test_a_shortened_run_says_so(tmp_path: Path) -> None:
    run(tmp_path, "--epochs", "1", "--splits", "random", "--models", "wl", "--seeds", "1")
    assert " | 1 | 1 of 2 | rmse | " in (tmp_path / "some_table_here.md").read_text()


def test_a_set_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(tmp_path, "--sets", "absent")


@pytest.mark.parametrize("option", ["sets", "splits", "models"])
def test_unknown_names(option: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"--{option}: expected any of .*, got other"):
        run(tmp_path, f"--{option}", "other")


def test_a_quick_run_has_both_classes(tmp_path: Path) -> None:
    data = classification_set()
    y = np.zeros((len(data), 1))
    y[::6] = 1
    rare = data.with_targets(y, target_names=("rare",))
    few = _few(rare, np.arange(len(rare)))
    assert (np.diff(few) > 0).all()
    assert set(rare.y[few, 0].tolist()) == {0.0, 1.0}
    run(tmp_path, "--quick", "--splits", "random")
    assert " | 1 | 1 of 2 | rmse | " in (tmp_path / "some_table_here.md").read_text()
