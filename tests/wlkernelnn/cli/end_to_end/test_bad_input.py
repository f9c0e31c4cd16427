"""Tables with little or nothing to learn: the right value, or an error that says what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.inputs.estimators import SIZE, SMILES
from wlkernelnn.cli.main import main
from wlkernelnn.machines import molecules

ATOMS = ["C", "N", "O", "[Na+]", "[Cl-]", "[K+]", "F", "S", "P", "[Xe]"]


def train(folder: Path, smiles: Sequence[str], y: Sequence[object] | np.ndarray, *options: str) -> int:
    pd.DataFrame({"smiles": smiles, "y": y}).to_csv(folder / "set.csv", index=False)
    command = f"train --data-path {folder / 'set.csv'} --target-columns y --output-dir {folder / 'run'}"
    return main([*command.split(), *options])


def predicted(folder: Path, smiles: Sequence[str], *options: str) -> pd.DataFrame:
    pd.DataFrame({"smiles": smiles}).to_csv(folder / "new.csv", index=False)
    paths = ["--test-path", folder / "new.csv", "--preds-path", folder / "preds.csv"]
    assert main(["predict", *map(str, paths), "--model-path", str(folder / "run"), *options]) == 0
    return pd.read_csv(folder / "preds.csv")


def test_duplicates_with_different_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smiles, size = SMILES[::2], SIZE[::2]
    assert train(tmp_path, 2 * smiles, np.concatenate([size - 2, size + 2])) == 0
    assert "30 rows repeat the SMILES of an earlier row and are kept" in capsys.readouterr().err
    found = predicted(tmp_path, smiles, "--std")
    assert np.abs(found["y"] - size).mean() < 1
    assert 1.5 < found["y_std"].mean() < 3.5


@pytest.mark.usefixtures("rendered")
def test_constant_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are predicted, without deviation; figures and pictures of it can be made."""
    assert train(tmp_path, SMILES[::2], [3.5] * 30) == 0
    assert "target y: all training molecules have 3.5: nothing is learned" in capsys.readouterr().err
    found = predicted(tmp_path, SMILES[::2], "--interval", "0.9")
    assert (found[["y", "y_low", "y_high"]] == 3.5).all(axis=None)
    evaluate = ["--data-path", tmp_path / "set.csv", "--model-path", tmp_path / "run"]
    assert main(["evaluate", *map(str, evaluate), "--plot-path", str(tmp_path / "a.png")]) == 0


def test_molecules_without_edges_and_strangers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = [f"{'C' * n}{end}" for n in range(6, 14) for end in ("O", "N", "=O", "(=O)O")]
    assert train(tmp_path, long, np.arange(32.0)) == 0
    capsys.readouterr()
    found = predicted(tmp_path, ["FF", *ATOMS], "--std", "--nearest", "--num-workers", "0")
    assert found.columns.tolist() == ["smiles", "y", "y_std", "nearest_similarity"]
    assert np.isfinite(found.drop(columns="smiles")).all(axis=None)
    assert found["nearest_similarity"][0] == 0
    assert "molecules share no substructure with training molecules (similarity 0)" in capsys.readouterr().err
    alone = tmp_path / "alone"
    alone.mkdir()
    assert train(alone, ATOMS, np.arange(10.0)) == 0


@pytest.mark.parametrize(
    ("smiles", "y", "options", "message"),
    [
        (["CCO"], [1.0], [], "the valid part of the split is empty: 1 items"),
        (["CCO"], [1.0], ["--split-sizes", "1", "0", "0"], "needs at least 2 molecules, got 1"),
        (
            SMILES,
            [None] * 60,
            [],
            "60 of 60 rows give no molecule or have no target data row 1 (line 2): 'CO': no target value",
        ),
        ([], [], [], "set.csv: the file has a header but no rows"),
    ],
    ids=["one molecule", "one to train on", "no targets", "no rows"],
)
def test_nothing_to_learn(
    smiles: list[str],
    y: list[object],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert train(tmp_path, smiles, y, *options) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_target_without_values_beside_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pd.DataFrame({"smiles": SMILES, "size": SIZE, "none": np.nan})
    table.to_csv(tmp_path / "set.csv", index=False)
    command = f"train --data-path {tmp_path / 'set.csv'} --output-dir {tmp_path / 'run'} --target-columns"
    assert main([*command.split(), "size", "none"]) == 1
    assert "target none: no training molecule has a value of it" in capsys.readouterr().err


def test_more_molecules_than_memory_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(molecules, "memory", lambda: 16 * 48**2 - 1)
    assert train(tmp_path, SMILES, SIZE, "--model", "gp") == 1
    message = (
        "model='gp' needs about 0 GB for 48 molecules and 1 target(s), and this machine has 0 GB: take mo"
    )
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_single_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its frequency is predicted; scores that need two classes are missing."""
    command = ("--task-type", "classification", "--metric", "log_loss")
    assert train(tmp_path, SMILES[::2], [1] * 30, *command) == 0
    assert "target y: " in capsys.readouterr().err
    assert (predicted(tmp_path, SMILES[::2])["y"] > 0.9).all()
    evaluate = ["--data-path", tmp_path / "set.csv", "--model-path", tmp_path / "run"]
    assert main(["evaluate", *map(str, evaluate)]) == 0
    assert "roc_auc of y cannot be computed: too few values, or a single class" in capsys.readouterr().err
