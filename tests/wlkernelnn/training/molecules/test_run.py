from __future__ import annotations

import json
import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import (
    SMALL,
    assert_same_weights,
    classification_set,
    described,
    quick,
    regression_set,
)
from tests.wlkernelnn.training.runs import SPLIT, run
from wlkernelnn.datasets import PackedGraphs, molecule_ids, molecules_from, random_split
from wlkernelnn.datasets.molecules.probe import probed
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training import DivergedError, Ensemble, FitResult, fit, load_checkpoint, load_ensemble, score
from wlkernelnn.training.molecules import run as run_module


def short_run(directory: Path, **kwargs: Any) -> tuple[Ensemble, dict[str, Any]]:
    """Of one epoch."""
    return run(directory, options=quick(epochs=1), **kwargs)


def test_files_of_a_run(folder: Path) -> None:
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    networks = [
        f"model_{i}/{name}" for i in (0, 1) for name in ("config.json", "history.csv", "model.safetensors")
    ]
    tables = [f"{part}_predictions.csv" for part in ("train", "valid", "test")]
    others = [
        f"{name}.json" for name in ("metrics", "origin", "recalibration", "splits", "training_molecules")
    ]
    assert names == sorted([*networks, *tables, ".lock", *others])
    assert json.loads((folder / "splits.json").read_text()) == {k: v.tolist() for k, v in SPLIT.items()}
    history = pd.read_csv(folder / "model_1" / "history.csv")
    assert history.columns.tolist() == ["epoch", "train_loss", "valid_loss", "valid_rmse"]
    assert history["epoch"].tolist() == [0, 1]


def test_random_numbers_of_the_caller_go_on(tmp_path: Path) -> None:
    torch.manual_seed(1)  # not the seed of the training
    state = torch.random.get_rng_state()
    short_run(tmp_path / "run", ensemble_size=1)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_classes_that_the_training_part_lacks_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    smiles, names = ["C" * n for n in range(1, 31)], 9 * ["a", "b", "c"] + 3 * ["d"]
    data = molecules_from(smiles, names, task="classification", cache=False)
    for first, times in ((24, 1), (28, 1)):
        split = {"train": np.arange(first), "test": np.arange(first, 30)}
        short_run(tmp_path / str(first), data=data, split_idx=split, ensemble_size=1)
        assert caplog.text.count("no training graph is of class d: what is predicted of it means") == times


@pytest.mark.parametrize("make", [regression_set, classification_set])
def test_networks_whose_units_died_are_told(
    make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "network 0 predicts the same of all training graphs, though their targets differ"
    rows = np.random.default_rng(0).permutation(56)
    split = {"train": rows[:30], "valid": rows[30:44], "test": rows[44:]}
    short_run(tmp_path / "alive", data=make(), split_idx=split, ensemble_size=1)
    assert said not in caplog.text

    def fit_and_kill(net: GraphNetwork, *arguments: Any, **more: Any) -> FitResult:
        result = fit(net, *arguments, **more)
        with torch.no_grad():
            net.head.lins[0].bias.fill_(-1e6)  # type: ignore[operator, index, union-attr]
        return result

    monkeypatch.setattr(run_module, "fit", fit_and_kill)
    short_run(tmp_path / "dead", data=make(), split_idx=split, ensemble_size=1)
    assert caplog.text.count(said) == 1


def test_molecules_in_two_parts_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However they are written; and the folder knows its training molecules without naming them."""
    smiles = ["OCC", *(f"{'C' * n}N" for n in range(2, 12)), "CCO", "CC", "C(O)C"]
    data = molecules_from(smiles, np.arange(14.0), cache=False)
    split = {"train": np.arange(11), "valid": np.array([12]), "test": np.array([11, 13])}
    _, report = short_run(tmp_path, data=data, split_idx=split, ensemble_size=1)
    said = "the parts are not apart: 1 molecules of the test part (2 of 2 rows) are in the train part too"
    assert sum(said in message for message in caplog.messages) == 1
    assert report["in_training"] == {"test": 2}
    kept = json.loads((tmp_path / "training_molecules.json").read_text())["molecules"]
    assert [int(number, 16) for number in kept] == np.unique(molecule_ids(smiles[:11])).tolist()
    assert "CC" not in (tmp_path / "training_molecules.json").read_text()


def test_what_a_network_says_about_itself(folder: Path) -> None:
    about = load_checkpoint(folder / "model_0")[1]
    assert about.pop("seconds") > 0
    assert about.pop("rdkit") == probed("ogb")
    assert about == {
        "features": "ogb",
        "target_names": ["Act"],
        "task": "regression",
        "metric": "rmse",
        "unit": "",
        "name": "some",
    }


def test_predictions_and_metrics_agree(folder: Path) -> None:
    data = regression_set()
    report = json.loads((folder / "metrics.json").read_text())
    assert report["counts"] == {"train": 36, "valid": 12, "test": 12}
    assert report["parameters"] == load_ensemble(folder).num_parameters
    for part in ("valid", "test"):
        table = pd.read_csv(folder / f"{part}_predictions.csv")
        assert table.columns.tolist() == ["row", "smiles", "Act", "Act_pred", "Act_std"]
        # Rows count from 1, as in rejects and messages.
        assert table["row"].tolist() == (SPLIT[part] + 1).tolist()
        assert table["smiles"].tolist() == data[SPLIT[part]].smiles
        np.testing.assert_allclose(table["Act"], data[SPLIT[part]].y[:, 0], rtol=1e-6)
        rmse = ((table["Act"] - table["Act_pred"]) ** 2).mean() ** 0.5
        assert report[part] == pytest.approx(rmse, rel=1e-5)
        assert report["scores"][part]["mean"]["rmse"] == report[part]


def test_all_metrics_of_the_training_part(folder: Path) -> None:
    """Its predictions lie there without the SMILES."""
    report = json.loads((folder / "metrics.json").read_text())
    table = pd.read_csv(folder / "train_predictions.csv")
    assert table.columns.tolist() == ["row", "Act", "Act_pred"]
    assert table["row"].tolist() == (SPLIT["train"] + 1).tolist()
    assert report["train_predictions"] == "fitted"
    scores = report["scores"]["train"]["targets"]["Act"]
    assert list(scores) == ["rmse", "mae", "r2", "spearman"]
    assert scores["mae"] == pytest.approx((table["Act"] - table["Act_pred"]).abs().mean(), rel=1e-5)
    assert scores["spearman"] == pytest.approx(table["Act"].corr(table["Act_pred"], method="spearman"))


def test_networks_differ_in_their_seeds(folder: Path, tmp_path: Path) -> None:
    ensemble, _ = run(tmp_path / "again", ensemble_size=2)
    for came, before in zip(ensemble.networks, load_ensemble(folder).networks, strict=True):
        assert_same_weights(came, before)
    second, _ = run(tmp_path / "second", options=quick(epochs=2, seed=1))
    assert_same_weights(second.networks[0], ensemble.networks[1])


def test_classification_with_missing_labels(tmp_path: Path) -> None:
    data = classification_set()
    split = random_split(len(data), (0.5, 0.25, 0.25))
    ensemble, report = short_run(tmp_path, data=data, split_idx=split)
    assert report["metric"] == "roc_auc"
    test = data[split["test"]]
    mean, _ = ensemble.predict(test)
    assert 0 < mean.min() < mean.max() < 1
    assert report["test"] == score("roc_auc", test.y.numpy(), mean)
    table = pd.read_csv(tmp_path / "test_predictions.csv")
    assert table.columns.tolist() == ["row", "smiles", "active", "active_pred", "aza", "aza_pred"]
    assert np.array_equal(table[["active", "aza"]].isna(), test.y.isnan())
    assert table["row"].tolist() == (test.row.numpy() + 1).tolist()


def test_without_validation_or_test(tmp_path: Path) -> None:
    everything = {"train": np.arange(60), "valid": np.arange(0), "test": np.arange(0)}
    _, report = short_run(tmp_path, split_idx=everything)
    assert report["counts"] == {"train": 60}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "metrics.json",
        "model_0",
        "origin.json",
        "splits.json",
        "train_predictions.csv",
        "training_molecules.json",
    ]


def test_a_score_that_cannot_be_computed_is_null(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = classification_set()
    ones = np.flatnonzero((data.y.numpy() != 0).all(1))
    split = {"train": np.setdiff1d(np.arange(len(data)), ones), "test": ones}
    _, report = short_run(tmp_path, data=data, split_idx=split)
    assert math.isnan(report["test"])
    assert json.loads((tmp_path / "metrics.json").read_text())["test"] is None
    assert "NaN" not in (tmp_path / "metrics.json").read_text()
    assert "test: roc_auc is the mean of 0 of 2 targets" in caplog.text


def test_targets_that_cannot_be_scored_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = classification_set()
    ones = np.flatnonzero(data.y.numpy()[:, 1] != 0)  # of the second target, one class
    ones = ones[~np.isnan(data.y.numpy()[ones, 0])]
    split = {"train": np.setdiff1d(np.arange(len(data)), ones), "test": ones}
    _, report = short_run(tmp_path, data=data, split_idx=split)
    each = json.loads((tmp_path / "metrics.json").read_text())["targets"]["test"]
    assert each == {"active": report["test"], "aza": None}
    assert (
        "test: roc_auc is the mean of 1 of 2 targets; too few values, or a single class, have aza"
        in caplog.text
    )


def test_a_run_that_diverged_can_be_repeated_with_other_options(tmp_path: Path) -> None:
    with pytest.raises(DivergedError):
        run(tmp_path, options=quick(epochs=2, lr=1e12, ema_decay=0.0, gradient_clip=0.0))
    short_run(tmp_path)
    assert (tmp_path / "metrics.json").is_file()


# Resumed


def test_resume_keeps_what_is_finished_and_trains_the_rest(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model_0")
    finished = (tmp_path / "run" / "model_1" / "config.json").stat().st_mtime_ns
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        ensemble, report = run(tmp_path / "run", ensemble_size=2, resume=True)
    assert (tmp_path / "run" / "model_1" / "config.json").stat().st_mtime_ns == finished
    assert [text for text in caplog.messages if text.startswith("network")] == ["network 1 of 2, seed 0"]
    for came, before in zip(ensemble.networks, load_ensemble(folder).networks, strict=True):
        assert_same_weights(came, before)
    before = json.loads((folder / "metrics.json").read_text())
    assert {**report, "seconds": 0} == {**before, "seconds": 0}


def test_a_run_is_not_overwritten(folder: Path) -> None:
    with pytest.raises(FileExistsError, match="two holds a run already: resume it, or choose another folder"):
        run(folder)


def test_resuming_with_another_split(folder: Path) -> None:
    before = (folder / "splits.json").read_text()
    with pytest.raises(ValueError, match=r"splits\.json: the run to resume has another split"):
        run(folder, split_idx=random_split(60, seed=1), resume=True)
    assert (folder / "splits.json").read_text() == before


# Errors


def test_resuming_with_other_data_or_another_network(folder: Path) -> None:
    data = regression_set()
    with pytest.raises(ValueError, match=r"origin\.json: the run to resume has other data"):
        run(folder, data=data.with_targets(2 * data.y), ensemble_size=3, resume=True)
    with pytest.raises(ValueError, match=r"to resume has kind Graph\w+, and this is KernelStackNetwork"):
        run(folder, kind="KernelStackNetwork", network={}, resume=True)
    with pytest.raises(ValueError, match=r"the run to resume has network \{.*\}, and this is \{.*\}"):
        run(folder, network=SMALL | {"hidden_channels": 5}, resume=True)


@pytest.mark.parametrize(
    "names", [("y", "y_std"), ("y", "y"), ("row", "y"), ("a_pred", "a"), ("smiles", "y")]
)
def test_targets_that_predictions_could_not_be_told_by(names: tuple[str, str], tmp_path: Path) -> None:
    data = regression_set()
    two = data.with_targets(data.y.repeat(1, 2), target_names=names)
    with pytest.raises(ValueError, match="would be there twice"):
        run(tmp_path, data=two)
    assert not list(tmp_path.iterdir())


def test_targets_without_names_and_graphs_without_smiles(tmp_path: Path) -> None:
    data = regression_set()
    two = data.with_targets(data.y.repeat(1, 2))
    arrays = replace(two.arrays, smiles=torch.zeros(0, dtype=torch.uint8), smiles_ptr=torch.zeros(0).long())
    short_run(tmp_path, data=PackedGraphs(arrays, two.description))
    table = pd.read_csv(tmp_path / "test_predictions.csv")
    assert table.columns.tolist() == ["row", *(f"y{t}{end}" for t in (1, 2) for end in ("", "_pred", "_std"))]


def test_seconds_are_those_of_all_networks(tmp_path: Path) -> None:
    short_run(tmp_path)
    _, both = short_run(tmp_path, ensemble_size=2, resume=True)
    _, again = short_run(tmp_path, ensemble_size=2, resume=True)
    each = [load_checkpoint(tmp_path / f"model_{i}")[1]["seconds"] for i in (0, 1)]
    assert min(each) > 0
    assert both["seconds"] == again["seconds"] == round(sum(each), 1)


def test_splits_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no training part"):
        run(tmp_path, split_idx={"train": np.arange(0), "test": np.arange(60)})
    with pytest.raises(ValueError, match="expected parts train, valid, test, got val too"):
        run(tmp_path, split_idx={"train": np.arange(50), "val": np.arange(50, 60)})
    with pytest.raises(ValueError, match="ensemble_size must be an integer of at least 1, got 0"):
        run(tmp_path, ensemble_size=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"options": quick(seed=2**32 - 1), "ensemble_size": 2}, r"seed must be from 0 .* got 4294967296"),
        ({"ensemble_size": 1.5}, r"ensemble_size must be an integer of at least 1, got 1\.5"),
        ({"options": quick(metric="roc_auc")}, "mae, r2, spearman for regression"),
        ({"options": quick(patience=3), "split_idx": {"train": np.arange(50)}}, "patience=3 needs valid"),
        ({"options": quick(accelerator="abacus")}, "abacus"),
        (
            {"data": classification_set(), "split_idx": {"train": np.arange(1, 9), "valid": [0]}},
            "roc_auc cannot",
        ),
        (
            {
                "data": regression_set().with_targets(regression_set().y.repeat(1, 2)),
                "options": quick(bucket_width=0.5),
            },
            "one target per molecule",
        ),
    ],
    ids=["seed", "size", "metric", "patience", "accelerator", "valid", "buckets"],
)
def test_what_does_not_fit_is_found_before_anything_is_done(
    kwargs: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        run(tmp_path, **kwargs)
    assert not list(tmp_path.iterdir())


def test_a_run_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(NotADirectoryError, match="run is a file, expected a folder"):
        run(tmp_path / "run")


def test_resuming_with_other_options(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"origin\.json: the run to resume has options .*, and this is"):
        run(folder, options=quick(lr=0.5), ensemble_size=3, resume=True)


def test_an_ensemble_may_become_smaller(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "model_1" / "config.json").unlink()
    ensemble, report = run(tmp_path / "run", ensemble_size=1, resume=True)
    assert len(ensemble.networks) == len(load_ensemble(tmp_path / "run").networks) == 1
    assert report["parameters"] == ensemble.num_parameters


def test_nothing_to_resume_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "wlkernelnn"):
        short_run(tmp_path / "mistyped", resume=True)
        assert f"{tmp_path / 'mistyped'}: no run to resume, so one is begun" in caplog.text
        caplog.clear()
        short_run(tmp_path / "mistyped", resume=True)
    assert "no run to resume" not in caplog.text


def test_graphs_in_two_parts(tmp_path: Path) -> None:
    split = SPLIT | {"test": np.append(SPLIT["test"], SPLIT["train"][:2])}
    with pytest.raises(ValueError, match="split_idx: 2 graphs are in train and in test; expected none"):
        run(tmp_path, split_idx=split)
    assert not list(tmp_path.iterdir())


def test_networks_of_an_unknown_run_are_not_taken_for_its_own(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "model_0", tmp_path / "run" / "model_0")
    with pytest.raises(ValueError, match=r"holds networks without the origin\.json of their run"):
        run(tmp_path / "run", resume=True)


def test_resuming_with_a_damaged_split(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "run" / "splits.json").write_text('{"train": [')
    with pytest.raises(ValueError, match=r"splits\.json: not JSON"):
        run(tmp_path / "run", ensemble_size=2, resume=True)


def test_graphs_that_are_no_molecules(tmp_path: Path) -> None:
    """Networks say of their data that no featurizer made them, and come back."""
    data = described(random_packed(60, max_nodes=5, num_edge_types=2), node_dims=(7, 7, 7), task="regression")
    data = data.with_targets(torch.randn(len(data), 1))
    assert data.description.features == ""
    ensemble, report = short_run(tmp_path, data=data)
    assert report["test"] == pytest.approx(
        score("rmse", data[SPLIT["test"]].y.numpy(), ensemble.predict(data[SPLIT["test"]])[0])
    )
