from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from ogb.graphproppred import Evaluator

from tests.inputs.ogb_files import PARTS, SMILES, write_set, write_split
from wlkernelnn.bench.baselines import landmark_machines, wl_machines
from wlkernelnn.bench.harness import molecule_runs, trained
from wlkernelnn.bench.harness.report import plot
from wlkernelnn.bench.molecules import ogb, ogb_recipes, ogb_scores
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import OGB_SETS, load_molecules, load_ogb
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import FitOptions, predict

SMALL = ogb_recipes.Recipe(
    "small",
    {"hidden_channels": 4, "dropout": 0.0},
    GraphKernelNetwork,
    options=FitOptions(epochs=2, batch_size=4),
    grid={"lr": (1e-3, 1e-2), "hidden_channels": (4, 8)},
)


def write_small(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small sets like ogbg-molbbbp and pcqm4mv2, and small recipes."""
    y = np.array([0, 1, 1, 0, 1, 0, 0, 1])[:, None]
    write_set(root, "ogbg-molbbbp", SMILES, y, ["p_np"])
    folder = root / "pcqm4m-v2"
    (folder / "raw").mkdir(parents=True)
    gaps = [1.0, 2.0, 3.0, 4.0, 5.0, np.nan, np.nan, np.nan]
    table = pd.DataFrame({"idx": range(8), "smiles": SMILES, "homolumogap": gaps})
    table.to_csv(folder / "raw" / "data.csv.gz", index=False)
    parts = {"train": [0, 1, 4], "valid": [2, 3], "test-dev": [7, 5], "test-challenge": [6]}
    split = {part: np.array(rows, dtype=np.int64) for part, rows in parts.items()}
    torch.save(split, folder / "split_dict.pt")
    monkeypatch.setattr(wl_machines, "PENALTIES", (1.0, 0.01))
    monkeypatch.setattr(landmark_machines, "PENALTIES", {"ridge": (1.0,), "logistic": (0.1,)})
    for module in (ogb, ogb_scores):
        monkeypatch.setattr(module, "SUBMITTED", {"test-dev": 2, "test-challenge": 1})
    for name in ("ogbg-molbbbp", "pcqm4mv2"):
        monkeypatch.setitem(ogb.RECIPES, name, {"small": SMALL})


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the small sets."""
    write_small(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Such a folder with what ``--tune`` wrote; not to be changed."""
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_CACHE", str(folder / "cache"))
        write_small(folder, patch)
        run(folder, "ogbg-molbbbp", "--tune")
    return folder


def run(root: Path, *more: str) -> list[dict[str, Any]]:
    name = more[0]
    arguments = f"--name {name} --root {root} --run-dir {root / 'runs'} --output-dir {root / 'out'} --seeds 2"
    assert main(["benchmark", "ogb", *arguments.split(), *more[1:]]) == 0
    suffix = "_tuned" if "--tune" in more else ""
    path = root / "out" / f"ogb_{name.lower().removeprefix('ogbg-')}{suffix}.json"
    return json.loads(path.read_text())["runs"]


def test_what_the_leaderboard_asks_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = run(root, "ogbg-molbbbp")
    assert [record["seed"] for record in records] == [0, 1]
    data = load_ogb("ogbg-molbbbp", root)
    assert data.split_idx is not None
    for record in records:
        run_record = json.loads((root / "out" / record["folder"] / "result.json").read_text())
        history = [epoch["valid_roc_auc"] for epoch in run_record["history"]]
        assert record["best_epoch"] == int(np.argmax(history))
        assert record["scores"]["valid"]["roc_auc"] == pytest.approx(max(history), abs=1e-6)
        predictions = pd.read_csv(root / "out" / record["folder"] / "test_predictions.csv")
        assert predictions["row"].tolist() == data.split_idx["test"].tolist()
        official = Evaluator("ogbg-molbbbp").eval(
            {
                "y_true": data[data.split_idx["test"]].y.numpy(),
                "y_pred": predictions[["p_np_pred"]].to_numpy(),
            }
        )
        assert record["scores"]["test"]["roc_auc"] == official["rocauc"]
        assert record["counts"] == {"train": 4, "valid": 2, "test": 2}
        rows = (root / "out" / record["split_file"]).read_bytes()
        assert hashlib.sha256(rows).hexdigest() == record["split_sha256"]
    table = (root / "out" / "ogb_molbbbp.md").read_text()
    mean, std = (f(r["scores"]["test"]["roc_auc"] for r in records) for f in (_mean, _std))
    assert f"| {mean:.4f} ± {std:.4f} |" in table
    assert f"| {records[0]['parameters']:,} | 2 of 10 | 2 |" in table
    assert "Nothing was tuned by --tune" in table
    facts = f"OGB's own graphs; train 4, valid 2, test 2; SHA-256 of the split: {records[0]['split_sha256']}"
    assert facts in table
    for fact in ("command: wlkernelnn benchmark ogb --name", "processor: ", "torch: ", "revision: "):
        assert fact in table
    assert "full" in capsys.readouterr().out


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))


def _std(values: Any) -> float:
    return float(np.std(list(values), ddof=1))


def test_runs_are_not_repeated(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(root, "ogbg-molbbbp", "--seeds", "1")
    with monkeypatch.context() as patch:
        patch.setattr(molecule_runs, "fit", None)
        assert run(root, "ogbg-molbbbp", "--seeds", "1") == first
    assert run(root, "ogbg-molbbbp", "--seeds", "2")[0] == first[0]
    # Another recipe is another run.
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", {"small": SMALL.changed("lr", 0.05)})
    other = run(root, "ogbg-molbbbp", "--seeds", "1")
    assert other[0]["recipe"]["lr"] == 0.05
    assert other[0]["folder"] != first[0]["folder"]


def test_runs_on_another_split_are_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = run(root, "ogbg-molbbbp", "--seeds", "2")
    assert before[0]["split_sha256"] in (root / "out" / "ogb_molbbbp.md").read_text()
    folder = root / "ogb" / OGB_SETS["ogbg-molbbbp"].folder
    write_split(folder, PARTS | {"valid": PARTS["test"], "test": PARTS["valid"]})
    with pytest.raises(AssertionError):
        run(root, "ogbg-molbbbp", "--seeds", "1")
    assert "holds rows of other data" in capsys.readouterr().err
    assert json.loads((root / "out" / "ogb_molbbbp.json").read_text())["runs"] == before


def test_other_revisions_are_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(root, "ogbg-molbbbp", "--seeds", "1")
    monkeypatch.setattr(trained, "revision", lambda: "another")
    folders = f"--run-dir {root / 'runs'} --output-dir {root / 'out'}"
    arguments = f"benchmark ogb --name ogbg-molbbbp --root {root} {folders}"
    assert main(arguments.split()) != 0
    assert "this is another: delete it" in " ".join(capsys.readouterr().err.split())


def test_epochs_and_quick(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(run(root, "ogbg-molbbbp", "--quick")) == 1
    assert "(quick)" in capsys.readouterr().out
    (shortened,) = run(root, "ogbg-molbbbp", "--seeds", "1", "--epochs", "1")
    assert shortened["epochs"] == 1
    assert "| 1 of 2 |" in (root / "out" / "ogb_molbbbp.md").read_text()


def test_tuning_sees_no_test_part(tuned: Path) -> None:
    records = json.loads((tuned / "out" / "ogb_molbbbp_tuned.json").read_text())["runs"]
    assert [(r["changed"], r["value"], r["seed"]) for r in records] == [
        (changed, value, seed)
        for changed, value in (("", None), ("lr", 1e-2), ("hidden_channels", 8))
        for seed in (0, 1)
    ]
    assert all(
        "test" not in record["scores"] and record["counts"] == {"train": 4, "valid": 2} for record in records
    )
    assert list(tuned.glob("runs/**/valid_predictions.csv"))
    assert not list(tuned.glob("runs/**/test_predictions.csv"))
    assert records[2]["recipe"]["lr"] == 1e-2
    assert records[4]["arguments"]["hidden_channels"] == 8
    table = (tuned / "out" / "ogb_molbbbp_tuned.md").read_text()
    assert "| small | none: the recipe | " in table
    assert table.count(" | 2 | 0.") + table.count(" | 2 | 1.") == 3  # seeds, and the score
    assert "| small | hidden_channels 8 | " in table


def test_only_what_was_tried_is_a_grid(root: Path, tuned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("runs", "out"):
        shutil.copytree(tuned / folder, root / folder)
    machine = replace(SMALL, title="machine", members=0, machine=(1,), grid={})
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", {"small": SMALL, "machine": machine})
    tried = run(root, "ogbg-molbbbp", "--tune")
    path = root / "out" / "ogb_molbbbp_tuned.json"

    def said(runs: list[dict[str, Any]]) -> list[str]:
        path.write_text(json.dumps(json.loads(path.read_text()) | {"runs": runs}))
        run(root, "ogbg-molbbbp", "--seeds", "1")
        lines = (root / "out" / "ogb_molbbbp.md").read_text().splitlines()
        return [
            line for line in lines if line.startswith(("* small: ", "* machine: ", "* Nothing was tuned"))
        ]

    assert said(tried) == ["* small: lr **0.001**, 0.01; hidden_channels **4**, 8"]
    # As if it had been interrupted: a value counts once all of its seeds are there.
    assert said(tried[:5]) == ["* small: lr **0.001**, 0.01"]
    assert said(tried[:3]) == ["* Nothing was tuned by --tune."]


def _best_weights(folder: Path) -> dict[str, torch.Tensor]:
    kept = torch.load(folder / "best.ckpt", weights_only=True)["state_dict"]
    return {name.removeprefix("model."): value for name, value in kept.items()}


def test_predictions_to_submit(root: Path) -> None:
    (record,) = run(root, "pcqm4mv2", "--seeds", "1")
    assert "test" not in record["scores"]
    data = load_ogb("pcqm4mv2", root)
    assert data.split_idx is not None
    folder = root / "out" / record["folder"]
    assert "NaN" not in (folder / "result.json").read_text()
    net = GraphKernelNetwork.from_data(data[data.split_idx["train"]], **SMALL.arguments)
    net.load_state_dict(_best_weights(folder))
    with np.load(folder / "small" / "y_pred_pcqm4m-v2_test-dev.npz", allow_pickle=False) as file:
        assert file.files == ["y_pred"]
        assert file["y_pred"].dtype == np.float32
        in_order = load_molecules([SMILES[7], SMILES[5]], cache=False)
        assert file["y_pred"] == pytest.approx(predict(net, in_order)[:, 0], rel=1e-6)
    with np.load(folder / "small" / "y_pred_pcqm4m-v2_test-challenge.npz", allow_pickle=False) as file:
        challenge = load_molecules([SMILES[6]], cache=False)
        assert file["y_pred"] == pytest.approx(predict(net, challenge)[:, 0], rel=1e-6)
    valid = data[data.split_idx["valid"]]
    error = np.abs(predict(net, valid) - valid.y.numpy()).mean()
    assert record["scores"]["valid"]["mae"] == pytest.approx(float(error), rel=1e-6)
    assert "| valid MAE | test MAE |" in (root / "out" / "ogb_pcqm4mv2.md").read_text()


@pytest.mark.parametrize(("row", "part"), [(7, "test-dev"), (6, "test-challenge"), (0, None)])
def test_a_molecule_without_a_prediction(
    root: Path, capsys: pytest.CaptureFixture[str], row: int, part: str | None
) -> None:
    """It matters where predictions are submitted, and is said where not."""
    path = root / "pcqm4m-v2" / "raw" / "data.csv.gz"
    table = pd.read_csv(path)
    table.loc[row, "smiles"] = "C(C)(C)(C)(C)C"
    table.to_csv(path, index=False)
    if part is None:
        run(root, "pcqm4mv2", "--seeds", "1")
        text = (root / "out" / "ogb_pcqm4mv2.md").read_text()
        assert "**missing**, since RDKit refuses their SMILES: train 1, valid 0, test-dev 0" in text
        assert "graphs made from SMILES, those of OGB; train 2, valid 2, test 3" in text
        assert "is not OGB's whole part" not in text
        return
    arguments = f"benchmark ogb --name pcqm4mv2 --root {root} --run-dir {root / 'r'}".split()
    assert main(arguments) != 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{part}: what is submitted has a prediction for each of its" in said


def test_parts_that_are_not_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "ogb" / "ogbg_molbbbp" / "mapping" / "mol.csv.gz"
    table = pd.read_csv(path)
    table.loc[[0, 6], "smiles"] = "C(C)(C)(C)(C)C"  # of training and test
    table.to_csv(path, index=False)
    recipes = {"small": SMALL, "walks": replace(SMALL, title="walks", features="ogb+rw4")}
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", recipes)
    monkeypatch.setattr(ogb, "official", lambda *_: 0.5)  # a single class is left
    own, walks = run(root, "ogbg-molbbbp", "--seeds", "1")
    assert own["missing"] == {"train": 0, "valid": 0, "test": 0}
    assert walks["missing"] == {"train": 1, "valid": 0, "test": 1}
    lines = (root / "out" / "ogb_molbbbp.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("* features 'ogb':"))
    assert "OGB's own graphs; train 4, valid 2, test 2; SHA" in line
    (line,) = (line for line in lines if line.startswith("* features 'ogb+rw4':"))
    assert "graphs made from SMILES, those of OGB; train 3, valid 2, test 1; **missing**" in line
    assert "train 1, valid 0, test 1; **what is scored is not OGB's whole part**" in line


def test_a_quick_run_submits_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ogb, "QUICK_GRAPHS", 2)
    (record,) = run(root, "PCQM4Mv2", "--quick")
    assert record["counts"] == {"train": 2, "valid": 2, "test": 2}
    assert not list(root.rglob("*.npz"))


def test_ensembles(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipes = {"small": SMALL, "two": replace(SMALL, title="two", members=2, grid={})}
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", recipes)
    one, two = run(root, "ogbg-molbbbp", "--seeds", "1")
    assert [member["seed"] for member in two["members"]] == [0, 1000]
    assert two["parameters"] == 2 * one["parameters"]
    tables = [
        pd.read_csv(root / "out" / member["folder"] / "test_predictions.csv") for member in two["members"]
    ]
    mean = np.mean([table[["p_np_pred"]] for table in tables], axis=0)
    (expected,) = (
        Evaluator("ogbg-molbbbp").eval({"y_true": tables[0][["p_np"]].to_numpy(), "y_pred": mean}).values()
    )
    assert two["scores"]["test"]["roc_auc"] == expected
    text = (root / "out" / "ogb_molbbbp.md").read_text()
    assert f"| two | {two['parameters']:,} | 1 of 10 | 2 | " in text
    assert plot(json.loads((root / "out" / "ogb_molbbbp.json").read_text())) is not None


def test_a_machine_beside_networks(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = replace(SMALL, title="together", machine=(1,), grid={})
    machine = replace(SMALL, title="machine", members=0, machine=(1,), grid={})
    recipes = {"small": SMALL, "machine": machine, "together": together}
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", recipes)
    *small, alone, first, second = run(root, "ogbg-molbbbp", "--seeds", "2")
    assert [record["seed"] for record in (*small, alone, first, second)] == [0, 1, 0, 0, 1]
    for network, record in zip(small, (first, second), strict=True):  # one network, trained once
        assert [member["folder"] for member in record["members"]] == [network["folder"], alone["folder"]]
        assert record["parameters"] == network["parameters"] + alone["parameters"]
        assert (record["epochs"], record["best_epoch"]) == (2, network["best_epoch"])
    data = load_ogb("ogbg-molbbbp", root)
    assert data.split_idx is not None
    predictions, found = wl_machines.best_machine(data, data.split_idx, [1])
    assert alone["parameters"] == found["weights"]
    table = pd.read_csv(root / "out" / alone["folder"] / "test_predictions.csv")
    np.testing.assert_allclose(table[["p_np_pred"]], predictions["test"])
    text = (root / "out" / "ogb_molbbbp.md").read_text()
    assert f"| machine | {alone['parameters']} | – | – | " in text
    tuned = run(root, "ogbg-molbbbp", "--tune", "--models", "machine", "together")
    assert [(record["model"], record["seed"]) for record in tuned] == [
        ("machine", 0),
        ("together", 0),
        ("together", 1),
    ]
    assert all("test" not in record["scores"] for record in tuned)


def test_unknown_names(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "ogb", "--name", "ogbg-ppa"]) != 0
    assert "name must be one of ogbg-molhiv" in capsys.readouterr().err


def test_both_machines_beside_a_network(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = replace(SMALL, title="together", machine=(1,), landmarks=3, grid={})
    landmarks = replace(SMALL, title="landmarks", members=0, landmarks=3, grid={})
    monkeypatch.setitem(ogb.RECIPES, "ogbg-molbbbp", {"landmarks": landmarks, "together": together})
    alone, *both = run(root, "ogbg-molbbbp")
    assert (alone["parameters"], len(both)) == (4, 2)
    # The machine is fitted once.
    assert {record["member_parameters"][2] for record in both} == {4}
    assert {record["members"][2]["folder"] for record in both} == {alone["folder"]}
    assert both[0]["parameters"] == sum(both[0]["member_parameters"])
    parts = [
        pd.read_csv(root / "out" / member["folder"] / "test_predictions.csv") for member in both[0]["members"]
    ]
    mean = np.mean([part["p_np_pred"] for part in parts], axis=0)
    expected = Evaluator("ogbg-molbbbp").eval(
        {"y_true": parts[0][["p_np"]].to_numpy(), "y_pred": mean[:, None]}
    )
    assert both[0]["scores"]["test"]["roc_auc"] == pytest.approx(expected["rocauc"])
