from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inputs.molecules import classification_set, regression_set
from wlkernelnn.bench.baselines import wl_machines
from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.bench.molecules import members
from wlkernelnn.bench.molecules import table as molecule_table
from wlkernelnn.bench.molecules.members import MoleculeRow
from wlkernelnn.bench.molecules.table import MoleculeTask, molecules
from wlkernelnn.datasets import PackedGraphs, featurize, random_split
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions

OPTIONS = FitOptions(epochs=2, batch_size=64)
MODELS = {
    "wl": MoleculeRow("WL", {"hidden_channels": 8, "num_iterations": 2}, GraphKernelNetwork),
    "both": MoleculeRow("stacks", {"hidden_channels": 8, "num_layers": 2}, members=2),
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
    molecules("some-table", "Title", TASKS, "What it does.", legend="* more\n", seeds=2).main(arguments)
    result: dict[str, Any] = json.loads((folder / "some_table_here.json").read_text())
    return result


def test_a_row_per_set_split_and_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # What is trained once counts in both rows.
    both = replace(MODELS["wl"], title="WL, two networks", members=2)
    monkeypatch.setitem(TASKS, "here", replace(TASKS["here"], models=MODELS | {"both": both}))
    runs = run(tmp_path)["runs"]
    assert [(r["split"], r["set_seed"], r["model"]) for r in runs] == [
        (split, seed, model) for split in ("random", "published") for model in MODELS for seed in (0, 1)
    ]
    two = runs[2]
    assert two["parameters"] == 2 * two["member_parameters"][0]
    assert [member["seed"] for member in two["members"]] == [0, 1000]
    # Each seed draws its own random split; that of the file stays.
    hashes = [r["split_sha256"] for r in runs if r["model"] == "wl"]
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
    for record in runs:
        rows = (tmp_path / record["split_file"]).read_bytes()
        assert hashlib.sha256(rows).hexdigest() == record["split_sha256"]
    # All is there: nothing is trained again.
    assert [r["seconds"] for r in run(tmp_path)["runs"]] == [r["seconds"] for r in runs]


def test_a_single_set_has_the_tables_name(tmp_path: Path) -> None:
    tasks = {"here": TASKS["here"]}
    molecules("one", "Title", tasks, None).main(
        f"--quick --splits random --models both --output-dir {tmp_path} --run-dir {tmp_path}".split()
    )
    assert (tmp_path / "one.md").read_text().startswith("# Title (quick)\n")


def test_a_shortened_run_says_so(tmp_path: Path) -> None:
    run(tmp_path, "--epochs", "1", "--splits", "random", "--models", "wl", "--seeds", "1")
    assert " | 1 of 2 | 1 of 2 | rmse | " in (tmp_path / "some_table_here.md").read_text()


def test_a_set_that_was_asked_for_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        run(tmp_path, "--sets", "absent")
    with pytest.raises(FileNotFoundError, match="other: root is not a folder"):
        run(tmp_path, "--root", str(tmp_path / "other"))


def test_some_set_must_be_there(tmp_path: Path) -> None:
    tasks = dict.fromkeys(["absent", "too"], TASKS["absent"])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        molecules("one", "Title", tasks, None).main(["--output-dir", str(tmp_path)])


def test_files_that_training_misses_are_no_missing_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise FileNotFoundError("a checkpoint")

    monkeypatch.setattr(members, "run_network", broken)
    with pytest.raises(FileNotFoundError, match="a checkpoint"):
        run(tmp_path)


def test_a_member_is_a_row_of_its_own_too(tmp_path: Path) -> None:
    one = MoleculeRow("one", MODELS["wl"].arguments, GraphKernelNetwork)
    models = {"one": one, "two": replace(one, title="two", members=2)}
    tasks = {"here": MoleculeTask(OPTIONS, models, ("published",), load=load)}

    def table(*options: str) -> list[str]:
        folders = ["--output-dir", str(tmp_path), "--run-dir", str(tmp_path / "runs"), "--seeds", "1"]
        molecules("one", "Title", tasks, None).main([*folders, *options])
        return [record["model"] for record in json.loads((tmp_path / "one.json").read_text())["runs"]]

    assert table("--models", "two") == ["two"]
    assert table() == ["one", "two"]


def test_a_machine_is_fitted_once_to_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wl_machines, "PENALTIES", (1.0, 0.01))
    models = {
        "machine": MoleculeRow("machine", members=0, machine=(1, 2)),
        "wl": MODELS["wl"],
        "together": replace(MODELS["wl"], title="together", machine=(1, 2)),
    }
    tasks = {"here": MoleculeTask(OPTIONS, models, ("random", "published"), load=load)}
    folders = ["--output-dir", str(tmp_path), "--run-dir", str(tmp_path / "runs")]
    molecules("one", "Title", tasks, None, seeds=2).main(folders)
    runs = json.loads((tmp_path / "one.json").read_text())["runs"]
    of = {(run["split"], run["model"], run["set_seed"]): run for run in runs}
    assert len(of) == len(runs) == 11  # on the published split a machine has no seed
    machines = [of["random", "machine", 0], of["random", "machine", 1], of["published", "machine", 0]]
    assert len({run["split_sha256"] for run in machines}) == 3
    for split, seed, machine in (("random", 1, machines[1]), ("published", 1, machines[2])):
        network, together = of[split, "wl", seed], of[split, "together", seed]
        assert [member["folder"] for member in together["members"]] == [network["folder"], machine["folder"]]
        assert together["parameters"] == network["parameters"] + machine["parameters"]
        assert together["epochs"] == 2
        assert together["seconds"] == network["seconds"] + machine["seconds"]
        assert (together["networks"], together["network_seconds"]) == (1, network["seconds"])
    lines = (tmp_path / "one.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("| some | published | machine |"))
    assert f"| {machines[2]['parameters'] / 1e3:.0f}k | – | – | rmse |" in line
    assert line.endswith("| – |")
    (line,) = (line for line in lines if line.startswith("| some | random | machine |"))
    assert "| 2 | – | rmse |" in line


def test_a_set_without_the_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = TASKS | {"other": MoleculeTask(OPTIONS, {"more": MODELS["wl"]}, ("random",), load=load)}
    folders = ["--output-dir", str(tmp_path), "--run-dir", str(tmp_path / "runs")]

    def table(*options: str) -> None:
        molecules("some-table", "Title", tasks, None).main([*folders, "--quick", *options])

    with pytest.raises(ValueError, match="--splits: expected any of random, got published"):
        table("--sets", "other", "--splits", "published")
    with pytest.raises(ValueError, match="--models: expected any of more, got wl"):
        table("--sets", "other", "--models", "wl")
    table("--sets", "here", "other", "--models", "wl")
    assert "Without these splits or models, so left out: other." in capsys.readouterr().out


def test_unknown_names(tmp_path: Path) -> None:
    for option in ("sets", "splits", "models"):
        with pytest.raises(ValueError, match=f"--{option}: expected any of .*, got other"):
            run(tmp_path, f"--{option}", "other")


def test_a_quick_run_has_both_classes_in_every_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where each molecule is of class 1 by some target, and one target has hardly any other class."""
    monkeypatch.setattr(molecule_table, "QUICK", 30)
    data = classification_set()
    y = np.ones((len(data), 2))
    y[::2, 0] = 0
    y[7, 1] = 0
    sets = {
        name: data.with_targets(y[:, tasks], target_names=("a", "b")[: len(tasks)], name=name)
        for name, tasks in (("two", [1, 0]), ("one", [0]))
    }
    for whole in sets.values():
        whole.split_idx = random_split(len(data), (0.5, 0.25, 0.25), seed=3)
    tasks = {
        name: MoleculeTask(
            OPTIONS, {"wl": MODELS["wl"]}, ("random", "published"), load=lambda *_, found=whole, **__: found
        )
        for name, whole in sets.items()
    }
    molecules("some", "Title", tasks, None).main(["--quick", "--run-dir", str(tmp_path)])
    for name, whole in sets.items():
        of = dict(zip(whole.row.tolist(), whole.y.numpy(), strict=True))
        for record in json.loads((tmp_path / "quick" / f"some_{name}.json").read_text())["runs"]:
            parts = json.loads((tmp_path / "quick" / record["split_file"]).read_text())
            assert sum(map(len, parts.values())) < len(whole)
            for rows in parts.values():
                even = [of[row][-1] for row in rows]
                assert set(even) == {0.0, 1.0}
            if record["split"] == "published":
                for part, index in (whole.split_idx or {}).items():
                    assert set(parts[part]) <= set(whole.row[index].tolist())


def test_a_quick_run_featurizes_only_what_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecule_table, "QUICK", 30)
    made: list[tuple[str, int]] = []

    def counted(smiles: list[str], *, features: str, **more: Any) -> Any:
        made.append((features, len(smiles)))
        return featurize(smiles, features=features, **more)

    monkeypatch.setattr(molecule_table, "featurize", counted)
    models = {name: replace(MODELS["wl"], features=name) for name in ("ogb", "ogb+rw4+rdkit")}
    tasks = {"here": MoleculeTask(OPTIONS, models, ("random", "published"), load=load)}
    molecules("one", "Title", tasks, None).main(["--quick", "--run-dir", str(tmp_path)])
    assert [features for features, _ in made] == list(models)
    assert all(count < len(regression_set()) for _, count in made)
    runs = json.loads((tmp_path / "quick" / "one.json").read_text())["runs"]
    assert [record["features"] for record in runs] == 2 * list(models)
    # The same molecules for all rows, under the rows of the whole set.
    assert len({record["split_sha256"] for record in runs[:2]}) == 1
    index = json.loads((tmp_path / "quick" / runs[-1]["split_file"]).read_text())
    published = random_split(len(regression_set()), seed=5)
    assert all(set(index[part]) < set(rows.tolist()) for part, rows in published.items())
    assert " | 1 of 5 | 1 of 2 | rmse | " in (tmp_path / "quick" / "one.md").read_text()


def test_processes_of_other_kinds_are_other_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[str] = []

    def fit(split: Split, _: Path, model: str) -> Fitted:
        fitted.append(model)
        return Fitted({"valid": split["valid"].y.numpy(), "test": split["test"].y.numpy()}, 1, 0.0)

    monkeypatch.setattr(members, "fit_process", fit)
    data = regression_set(20)
    split = Split(data, "random", random_split(20, seed=0))
    for kind in ("auto", "linear", "auto"):
        row = MoleculeRow("machine", process=kind, members=0)
        members.run_members("m", row, split, OPTIONS, 0, TrainedOptions(), tmp_path / "m", {})
    assert fitted == ["auto", "linear"]
