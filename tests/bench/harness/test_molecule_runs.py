from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.molecules import SMALL, classification_set, quick, regression_set
from wlkernelnn.bench.harness import molecule_runs
from wlkernelnn.bench.harness.cells import Record
from wlkernelnn.bench.harness.molecule_runs import (
    Fitted,
    Split,
    ensemble,
    for_table,
    run_method,
    run_network,
    score_of,
)
from wlkernelnn.datasets import PackedGraphs, random_split
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import DivergedError, FitOptions, score


def split_of(seed: int = 0) -> Split:
    data = regression_set()
    return Split(data, "random", random_split(len(data), seed=seed))


def run(folder: Path, options: FitOptions, split: Split | None = None, **more: Any) -> Record:
    return run_network("ours", GraphKernelNetwork, SMALL, split or split_of(), options, folder, **more)


def test_record_and_files(tmp_path: Path) -> None:
    split = split_of()
    known = {"revision": "abc", "command": "x"}
    record = run(tmp_path / "ours", quick(seed=3), split, metrics=["mae"], known=known)
    assert record["data"] == "some"
    assert record["split"] == "random"
    assert record["seed"] == record["recipe"]["seed"] == 3
    assert record["model"] == "ours"
    assert record["network"] == "GraphKernelNetwork"
    assert record["arguments"] == SMALL
    assert record["epochs"] == record["recipe_epochs"] == 3
    assert record["stopped"]
    assert record["revision"] == "abc"
    assert record["seconds"] > 0
    assert record["parameters"] == sum(
        p.numel() for p in GraphKernelNetwork.from_data(split["train"], **SMALL).parameters()
    )

    rows = Path(record["split_file"]).read_bytes()
    assert hashlib.sha256(rows).hexdigest() == record["split_sha256"]
    assert json.loads(rows) == {part: split.data.row[index].tolist() for part, index in split.index.items()}

    best = min(record["history"], key=lambda epoch: epoch["valid_rmse"])
    assert record["best_epoch"] == best["epoch"]
    assert record["scores"]["valid"]["rmse"] == pytest.approx(best["valid_rmse"], rel=1e-5)
    assert set(record["scores"]) == {"train", "valid", "test"}
    for part in ("valid", "test"):
        table = pd.read_csv(Path(record["folder"]) / f"{part}_predictions.csv")
        assert table["row"].tolist() == split.index[part].tolist()
        np.testing.assert_allclose(table["Act"], split[part].y[:, 0])
        for metric in ("rmse", "mae"):
            expected = score(metric, table[["Act"]].to_numpy(), table[["Act_pred"]].to_numpy())
            assert record["scores"][part][metric] == pytest.approx(expected, rel=1e-5)


def test_runs_are_kept_and_gone_on_with(tmp_path: Path) -> None:
    options = quick(schedule="constant", epochs=3)
    first = run(tmp_path, options, epochs=1)
    assert (first["epochs"], first["stopped"]) == (1, False)
    whole = run(tmp_path, options)
    assert whole["folder"] == first["folder"]
    assert whole["history"][0] == first["history"][0]
    assert len(whole["history"]) == 3
    assert run(tmp_path, options, epochs=2) == whole


def test_other_splits_options_and_seeds_are_other_runs(tmp_path: Path) -> None:
    options = quick(epochs=1)
    runs = [
        run(tmp_path, options),
        run(tmp_path, options, split_of(1)),
        run(tmp_path, replace(options, seed=1)),
        run(tmp_path, replace(options, lr=1e-4)),
    ]
    assert len({record["folder"] for record in runs}) == len(runs)
    assert len({record["split_file"] for record in runs}) == 2


def test_a_shorter_cosine_is_another_run(tmp_path: Path) -> None:
    options = quick(schedule="cosine", epochs=2)
    assert run(tmp_path, options, epochs=1)["folder"] != run(tmp_path, options)["folder"]


def guess(value: float, parameters: int = 1) -> Any:
    def fit(_: Path) -> Fitted:
        split = split_of()
        return Fitted({p: np.full((len(i), 1), value) for p, i in split.index.items()}, parameters, 0.5)

    return fit


def test_methods_without_epochs(tmp_path: Path) -> None:
    split = split_of()
    mean = float(split["train"].y.mean())
    record = run_method("mean", split, guess(mean), tmp_path / "mean", known={"mode": "full"})
    assert record["scores"]["test"]["rmse"] == pytest.approx(
        float((split["test"].y - mean).square().mean().sqrt())
    )
    assert record["stopped"]
    assert record["epochs"] == 0
    assert record["mode"] == "full"
    again = run_method("mean", split, guess(mean + 1), tmp_path / "mean")
    assert again["scores"] == record["scores"]  # it lay there
    other = run_method("mean", split, guess(mean + 1), tmp_path / "mean", decided_by={"more": 1})
    assert other["scores"] != record["scores"]


def test_a_run_of_two_rows_is_of_the_row_that_asks(tmp_path: Path) -> None:
    split = split_of()
    first = run_method("ensemble", split, guess(6.0), tmp_path / "same")
    other = Split(split.data, "published", split.index)
    second = run_method("stack", other, guess(7.0), tmp_path / "same")
    assert second["folder"] == first["folder"]
    assert second["scores"] == first["scores"]
    assert (second["model"], second["split"]) == ("stack", "published")


def test_a_table_has_its_splits_beside_it(tmp_path: Path) -> None:
    split = split_of()
    runs = [run_method("one", split, guess(6.0), tmp_path / "runs" / "one", seed=seed) for seed in (0, 1)]
    results = tmp_path / "some" / "results"
    for record in (*runs, ensemble("two", runs)):
        shown = for_table(record, results)
        assert shown["split_file"].startswith("splits/")
        assert (results / shown["split_file"]).read_text() == split.rows
        for place in [shown, *shown.get("members", ())]:
            if "folder" in place:
                assert place["folder"].startswith("../../runs/one/seed_")
                assert (results / place["folder"] / "test_predictions.csv").is_file()
        assert {name for name in record if shown[name] != record[name]} <= {
            "split_file",
            "folder",
            "members",
        }


def test_ensembles(tmp_path: Path) -> None:
    split = split_of()
    records = [
        run_method("guess", split, guess(value, 10), tmp_path / "guess", seed=seed, metrics=["mae"])
        for seed, value in enumerate((6.0, 7.0, 9.5))
    ]
    together = ensemble("three", records)
    wanted = np.full((len(split.index["test"]), 1), 7.5)
    for metric in ("rmse", "mae"):
        expected = score(metric, split["test"].y.numpy(), wanted)
        assert together["scores"]["test"][metric] == pytest.approx(expected, rel=1e-6)
    assert together["parameters"] == 30
    assert together["seconds"] == 1.5
    assert [member["seed"] for member in together["members"]] == [0, 1, 2]
    other = run_method("guess", split_of(1), guess(6.0), tmp_path / "guess")
    with pytest.raises(ValueError, match="one split"):
        ensemble("mixed", [records[0], other])
    for made_with in ({"device": "NVIDIA"}, {"torch": "2"}, {"revision": "B"}):
        networks = [record | {"recipe": {}} for record in records]
        with pytest.raises(ValueError, match="one revision, device and version"):
            ensemble("mixed", [networks[0], networks[1] | made_with])
    # What is not trained is fitted on the processor, wherever networks are.
    assert ensemble("both", [networks[0] | {"device": "NVIDIA"}, records[1]])["device"] == "NVIDIA"
    made = {"device": "processor", "threads": 2, "torch": "2", "rdkit": "3", "revision": "A"}
    together = ensemble("two", [record | made for record in records[:2]])
    assert together.items() >= made.items()


def test_missing_targets_and_several_tasks(tmp_path: Path) -> None:
    data = classification_set()
    split = Split(data, "random", random_split(len(data)))
    runs = [
        run_network("two", GraphKernelNetwork, SMALL, split, quick(epochs=1, seed=seed), tmp_path)
        for seed in (0, 1)
    ]
    together = ensemble("both", runs)
    for part in ("valid", "test"):
        mean = np.mean(
            [
                pd.read_csv(Path(record["folder"]) / f"{part}_predictions.csv")[["active_pred", "aza_pred"]]
                for record in runs
            ],
            axis=0,
        )
        expected = score("roc_auc", split[part].y.numpy(), mean)
        assert together["scores"][part]["roc_auc"] == pytest.approx(expected)


def test_spread() -> None:
    records = [{"scores": {"test": {"rmse": value}}} for value in (1.0, 2.0, 3.0)]
    assert score_of("test", "rmse")(records[:1]) == "1.000"
    assert score_of("test", "rmse", 1)(records) == "2.0 ± 1.0"


def test_targets_without_names_are_numbered() -> None:
    whole = regression_set()
    data = whole.with_targets(whole.y, target_names=())
    table = molecule_runs._table(data, np.zeros((len(data), 1)))
    assert list(table) == ["row", "target_0", "target_0_pred"]


def test_runs_on_other_targets_of_the_same_molecules_are_others(tmp_path: Path) -> None:
    split = split_of()
    first = run(tmp_path, quick(epochs=1), split)
    moved = PackedGraphs(
        replace(split.data.arrays, y=split.data.y + 1), split.data.description, split.data.split_idx
    )
    other = run(tmp_path, quick(epochs=1), replace(split, data=moved))
    assert other["folder"] != first["folder"]
    assert other["content"] != first["content"]


def test_trainings_that_diverge_are_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows them in a table is still trained; an ensemble is lost with its first member."""
    good = run(tmp_path, quick(epochs=1))

    def diverge(*arguments: Any, **more: Any) -> None:
        raise DivergedError("training diverged: …", epoch=2)

    with monkeypatch.context() as patch:
        patch.setattr(molecule_runs, "fit", diverge)
        lost = run(tmp_path, quick(seed=1, epochs=3))
    assert (lost["epochs"], lost["diverged"], lost["stopped"], lost["scores"]) == (2, 2, True, {})
    assert run(tmp_path, quick(seed=1, epochs=3)) == lost  # it is over
    together = ensemble("both", [good, lost])
    assert (together["diverged"], together["scores"]) == (2, {})
    assert score_of("test", "rmse")([lost]) == "diverged at epoch 3"
    expected = f"{good['scores']['test']['rmse']:.3f} (1 of 2 runs diverged)"
    assert score_of("test", "rmse")([good, lost]) == expected


def test_a_score_that_was_no_number_makes_the_row_none() -> None:
    records = [{"scores": {"test": {"roc_auc": score}}} for score in (0.7, None)]
    assert score_of("test", "roc_auc")(records) == "nan ± nan"


def test_small_errors_have_three_digits_that_count() -> None:
    for errors, shown in (
        ((0.0109,), "0.0109"),
        ((0.00123, 0.00125), "0.00124 ± 0.00001"),
        ((0.5,), "0.500"),
    ):
        records = [{"scores": {"test": {"mae": error}}} for error in errors]
        assert score_of("test", "mae")(records) == shown
