from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.bench import lfp
from wlkernelnn.cli.main import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Signals of three subjects; what frequency they have says which class they are of."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    time = np.arange(40) / 40
    phase = rng.uniform(0, 6, (60, 3, 1))
    x = np.sin(2 * np.pi * np.where(y, 10, 3)[:, None, None] * time + phase) + rng.normal(0, 0.1, (60, 3, 40))
    subject = np.repeat(["mouse 2", "mouse 1", "a/b"], 20)
    np.savez(tmp_path / "mice.npz", X=x, y=y, subject=subject)
    monkeypatch.setattr(lfp, "NGRAM", 8)
    monkeypatch.setattr(lfp, "FILTERS", 6)
    monkeypatch.setitem(lfp.RECIPE, "steps_per_epoch", 4)
    return tmp_path


def run(folder: Path, *more: str) -> list[lfp.Record]:
    folders = f"--run-dir {folder / 'runs'} --output-dir {folder / 'out'}"
    assert main([*f"benchmark lfp --data {folder / 'mice.npz'} {folders}".split(), *more]) == 0
    return json.loads((folder / "out" / "lfp.json").read_text())["runs"]


def test_table_and_plot(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(folder, "--epochs", "1")
    assert {(record["model"], record["subject"]) for record in runs} == {
        (model, subject) for model in lfp.MODELS for subject in ("mouse 2", "mouse 1", "a/b")
    }
    assert {record["num_trials"] for record in runs} == {20}
    table = (folder / "out" / "lfp.md").read_text()
    assert "| RKM-CIFG | " in table
    assert "| 1 of 20 | 3 of 3 |" in table
    assert "| – | 3 of 3 | 100.0 | 100 | 100 |" in table
    assert "| 80.24 |" in table
    assert "mice: 60 trials (30 0, 30 1) of 3 subjects, 3 channels, 40 samples; the most" in table
    assert (folder / "out" / "lfp.png").read_bytes().startswith(b"\x89PNG")
    assert "full" in capsys.readouterr().out


def test_quick(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(folder, "--quick", "--models", "cnn")
    assert len(runs) == 2
    assert "| 1 of 20 | 2 of 3 |" in (folder / "out" / "lfp.md").read_text()
    assert "quick" in capsys.readouterr().out


def test_more_epochs_go_on(folder: Path) -> None:
    arguments = ("--models", "rkm_lstm", "--seeds", "2")
    first = run(folder, *arguments, "--epochs", "1")
    second = run(folder, *arguments, "--epochs", "2")
    assert len(first) == len(second) == 6
    assert [r["history"][0] for r in second] == [r["history"][0] for r in first]
    assert {record["epochs"] for record in second} == {2}
    assert run(folder, *arguments, "--epochs", "1") == second


def test_frequencies_are_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(lfp.RECIPE, "lr", 0.02)
    runs = run(folder, "--models", "gated_cnn", "rkm_cifg", "bands", "--epochs", "10")
    for name in ("gated_cnn", "rkm_cifg", "bands"):
        right = [record["test_accuracy"] for record in runs if record["model"] == name]
        assert np.mean(right) > 0.8, name


@pytest.mark.parametrize("name", [name for name in lfp.MODELS if lfp.MODELS[name].trained])
def test_parameters_of_the_filters(name: str) -> None:
    """2KC + 2K for each gate and the cell, whatever n, beside those of feedback, biases and norm."""
    net = lfp.build(name, 11, 3)
    sets = {"lstm": 4, "rkm_lstm": 4, "rkm_cifg": 3, "linear_gated": 2, "linear": 1, "gated_cnn": 2, "cnn": 1}
    assert sum(p.numel() for p in net.encoder.syncs.parameters()) == sets[name] * (2 * 30 * 11 + 2 * 30)
    assert {filters.ngram for filters in net.encoder.syncs} == {40}


@pytest.mark.parametrize("length", [16, 40, 41])
def test_band_powers(length: int) -> None:
    """Seven oscillations lie in the octave from 4 to 8; no frequency is in two octaves or in none."""
    octaves = int(np.log2(length // 2)) + 1
    wave = np.sin(2 * np.pi * 7 * np.arange(length) / length)
    powers = lfp.band_powers(np.stack([wave, np.zeros(length)])[None])
    assert powers.shape == (1, 2 * octaves)
    assert np.isfinite(powers).all()
    assert powers[0, ::2].argmax() == 2
    noise = np.random.default_rng(0).normal(size=(1, 1, length))
    total = np.square(np.abs(np.fft.rfft(noise)[0, 0, 1:])).sum()
    widths = [min(2 ** (k + 1), length // 2 + 1) - 2**k for k in range(octaves)]
    assert np.exp(lfp.band_powers(noise)[0]) @ widths == pytest.approx(total)


def test_accuracies_by_subject() -> None:
    records = [
        {"subject": subject, "test_accuracy": value}
        for subject, value in (("b", 0.5), ("a", 0.25), ("b", 1.0))
    ]
    assert lfp.by_subject(records) == {"b": 75.0, "a": 25.0}
