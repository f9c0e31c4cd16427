from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from wlkernelnn.bench.signals import lfp
from wlkernelnn.cli.main import main
from wlkernelnn.training import DivergedError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Signals of two subjects; what frequency they have says which class they are of."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    time = np.arange(40) / 40
    phase = rng.uniform(0, 6, (40, 3, 1))
    x = np.sin(2 * np.pi * np.where(y, 10, 3)[:, None, None] * time + phase) + rng.normal(0, 0.1, (40, 3, 40))
    subject = np.repeat(["mouse 2", "a/b"], 20)
    np.savez(tmp_path / "mice.npz", X=x, y=y, subject=subject)
    monkeypatch.setattr(lfp, "NGRAM", 8)
    monkeypatch.setattr(lfp, "FILTERS", 6)
    monkeypatch.setitem(lfp.RECIPE, "steps_per_epoch", 2)
    return tmp_path


@pytest.fixture
def empty_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The picture of a table is made, but its file is empty."""
    monkeypatch.setattr(Figure, "savefig", lambda self, path, **_: Path(path).touch())


def run(folder: Path, *more: str) -> list[lfp.Record]:
    folders = f"--run-dir {folder / 'runs'} --output-dir {folder / 'out'}"
    assert main([*f"benchmark lfp --data {folder / 'mice.npz'} {folders}".split(), *more]) == 0
    return json.loads((folder / "out" / "lfp_mice.json").read_text())["runs"]


def test_table_and_plot(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(folder, "--epochs", "1")
    assert {(record["model"], record["subject"]) for record in runs} == {
        (model, subject) for model in lfp.MODELS for subject in ("mouse 2", "a/b")
    }
    assert {len(record["y"]) for record in runs} == {20}
    table = (folder / "out" / "lfp_mice.md").read_text()
    assert "| RKM-CIFG | " in table
    assert "| 1 of 20 | 2 of 2 |" in table
    assert "| – | 2 of 2 | 100.0 | 1.000 | 100 | 100 |" in table
    assert "| majority class | 0 | 1 | – | 2 of 2 | 50.0 |" in table
    assert "| 80.24 |" in table
    assert "mice: 40 trials (20 0, 20 1) of 2 subjects, 0 of whom have trials of one class" in table
    assert "\n  3 channels, 40 samples\n" in table
    assert "![Accuracy of every subject](lfp_mice.png)" in table
    assert (folder / "out" / "lfp_mice.png").read_bytes().startswith(b"\x89PNG")
    assert "full" in capsys.readouterr().out


@pytest.mark.usefixtures("empty_pictures")
def test_subjects_of_one_class(folder: Path) -> None:
    """Without a subject the other class is the most frequent: that is never right, and ranks upside down."""
    with np.load(folder / "mice.npz") as arrays:
        x, y = arrays["X"], arrays["y"]
    subject = np.where(y == 1, "a", "b").astype("<U2")
    subject[::4] = "b2"  # of class 0
    subject[1::4] = "a2"
    np.savez(folder / "mice.npz", X=x, y=y, subject=subject)
    runs = run(folder, "--models", "majority", "bands", "cnn", "--epochs", "1")
    majority = [record for record in runs if record["model"] == "majority"]
    assert [record["test_accuracy"] for record in majority] == [0, 0, 0, 0]
    assert lfp.pooled_roc_auc(majority) == 0
    assert all(record["recipe"]["balance"] for record in runs if record["model"] == "cnn")
    table = (folder / "out" / "lfp_mice.md").read_text()
    assert "| 4 of 4 | 0.0 | 0.000 | 0 | 0 |" in table
    assert "4 subjects, 4 of whom have trials of one class alone" in table


def test_pooled_roc_auc() -> None:
    """Over all records at once: each alone has an area of 1, both together have not."""
    records = [
        {"y": [0, 1], "probabilities": [[0.9, 0.1], [0.8, 0.2]]},
        {"y": [0, 1], "probabilities": [[0.7, 0.3], [0.6, 0.4]]},
    ]
    assert lfp.pooled_roc_auc(records) == 0.75
    three = {"y": [0, 1, 2], "probabilities": [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.4, 0.3]]}
    assert lfp.pooled_roc_auc([three]) == pytest.approx((1 + 1 + 0.75) / 3)
    assert lfp.pooled_roc_auc([{**three, "y": [0, 1, 1]}]) is None
    assert lfp.pooled_roc_auc([]) is None


def test_forget_bias() -> None:
    layer = lfp.build("rkm_cifg", 3, 2).encoder
    f, o = layer.bias.detach().split(30)
    torch.testing.assert_close(float(f.mean()), 1.0, rtol=0, atol=0.1)
    torch.testing.assert_close(float(o.mean()), 0.0, rtol=0, atol=0.1)
    assert layer.norm is not None


@pytest.mark.usefixtures("empty_pictures")
def test_runs_of_other_signals_and_precisions_stay_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "other").mkdir()
    with np.load(folder / "mice.npz") as arrays:
        np.savez(folder / "other" / "mice.npz", **{**arrays, "X": arrays["X"] + 1})
    monkeypatch.setattr(lfp, "QUICK_SUBJECTS", 1)
    arguments = ("--quick", "--models", "cnn")
    run(folder, *arguments)
    run(folder, *arguments, "--data", str(folder / "other" / "mice.npz"))
    run(folder, *arguments, "--matmul-precision", "medium")
    assert len(list((folder / "runs").rglob("result.json"))) == 3


def test_runs_that_diverge_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit, count = lfp.fit_classifier, itertools.count()

    def hot(*arguments: Any, **more: Any) -> Any:
        if next(count) in (1, 2, 3):  # the second subject of the first model, and all of the second
            raise DivergedError("training diverged: …", epoch=0)
        return fit(*arguments, **more)

    monkeypatch.setattr(lfp, "fit_classifier", hot)
    runs = run(folder, "--models", "cnn", "linear", "--epochs", "1")
    diverged = {(record["model"], record["subject"]) for record in runs if "diverged" in record}
    assert sum(model == "linear" for model, _ in diverged) == 2
    assert len(diverged) == 3
    linear, cnn = (folder / "out" / "lfp_mice.md").read_text().splitlines()[4:6]
    assert "| 1 of 20 | 2 of 2 |" in cnn
    assert "(1 of 2 runs diverged)" in cnn
    assert "| 0 of 20 | 2 of 2 | diverged at epoch 1 | – | – | – | 73.13 | – |" in linear


@pytest.mark.usefixtures("empty_pictures")
def test_quick(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lfp, "QUICK_SUBJECTS", 1)
    runs = run(folder, "--quick", "--models", "cnn")
    assert len(runs) == 1
    assert "| 1 of 20 | 1 of 2 |" in (folder / "out" / "lfp_mice.md").read_text()
    assert "quick" in capsys.readouterr().out


@pytest.mark.usefixtures("empty_pictures")
def test_more_epochs_go_on(folder: Path) -> None:
    arguments = ("--models", "rkm_lstm")
    first = run(folder, *arguments, "--epochs", "1")
    second = run(folder, *arguments, "--epochs", "2")
    assert len(first) == len(second) == 2
    assert [r["history"][0] for r in second] == [r["history"][0] for r in first]
    assert {record["epochs"] for record in second} == {2}
    assert run(folder, *arguments, "--epochs", "1") == second


@pytest.mark.usefixtures("empty_pictures")
def test_frequencies_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lfp.RECIPE, "steps_per_epoch", 4)
    monkeypatch.setitem(lfp.RECIPE, "lr", 0.02)
    runs = run(folder, "--models", "rkm_cifg", "bands", "--epochs", "10")
    for name in ("rkm_cifg", "bands"):
        right = [record["test_accuracy"] for record in runs if record["model"] == name]
        assert np.mean(right) > 0.8, name


def test_parameters_of_the_filters() -> None:
    """2KC + 2K for each gate and the cell, whatever n, beside those of feedback, biases and norm."""
    sets = {"lstm": 4, "rkm_lstm": 4, "rkm_cifg": 3, "linear_gated": 2, "linear": 1, "gated_cnn": 2, "cnn": 1}
    assert list(sets) == [name for name in lfp.MODELS if lfp.MODELS[name].trained]
    for name, count in sets.items():
        net = lfp.build(name, 11, 3)
        assert sum(p.numel() for p in net.encoder.syncs.parameters()) == count * (2 * 30 * 11 + 2 * 30)
        assert {filters.ngram for filters in net.encoder.syncs} == {40}


def test_accuracies_by_subject() -> None:
    records = [
        {"subject": subject, "test_accuracy": value}
        for subject, value in (("b", 0.5), ("a", 0.25), ("b", 1.0))
    ]
    assert lfp.by_subject(records) == {"b": 75.0, "a": 25.0}


@pytest.mark.usefixtures("empty_pictures")
def test_a_seed_without_all_subjects_waits(folder: Path) -> None:
    runs = run(folder, "--models", "bands", "majority", "cnn", "--seeds", "2", "--epochs", "1")
    of_cnn = [record for record in runs if record["model"] == "cnn"]
    first = [record for record in of_cnn if record["seed"] == 0]
    assert len(of_cnn) == 2 * len(first) == 4
    assert lfp.TABLE.rows(of_cnn[:3]) == lfp.TABLE.rows(first)
    assert lfp.TABLE.rows(first[:1])[1][4] == "1 of 2"
    assert lfp.TABLE.rows(of_cnn)[1][2] == "2"
