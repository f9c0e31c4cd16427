from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import MoleculeMachine, explain, save_machine

SMILES = ["CCO", "C1CC", "[Na+].[Cl-]", "CCCCCCN"]
TRAIN = [f"{'C' * n}{end}" for n in range(1, 12) for end in ("O", "N", "c1ccccc1")]
VALUES = np.random.default_rng(0).normal(size=(len(TRAIN), 2)) + [[len(text), "N" in text] for text in TRAIN]


def run_explain(machine: MoleculeMachine, folder: Path, *arguments: str) -> dict[str, pd.DataFrame]:
    save_machine(folder / "run", machine)
    pd.DataFrame({"smiles": SMILES}).to_csv(folder / "rows.csv", index=False)
    command = f"explain --test-path {folder}/rows.csv --model-path {folder}/run --output-dir {folder}/out"
    assert main([*command.split(), *arguments]) == 0
    return {
        name: pd.read_csv(folder / "out" / f"{name}.csv") for name in ("atoms", "molecules", "substructures")
    }


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels and descriptors are chosen, whatever is best: the choice with the most parts."""
    monkeypatch.setattr(
        MoleculeMachine, "_error", lambda self, process, *given: -len(process.targets_[0].amplitudes)
    )


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_sums_are_predictions(task: str, tmp_path: Path) -> None:
    y = VALUES.copy() if task == "regression" else (VALUES > [6, 0.5]).astype(float)
    y[::4, 1] = np.nan
    features = "ogb+invariants+descriptors"
    data = load_molecules(
        TRAIN, y=pd.DataFrame(y, columns=["a", "b"]), task=task, features=features, cache=False
    )
    machine = MoleculeMachine().fit(data[:-1])
    # One molecule at a time, and all of them together.
    came = run_explain(machine, tmp_path, "--batch-size", "1")
    good = [SMILES[0], *SMILES[2:]]
    graphs = load_molecules(good, features=features, cache=False)
    expected = explain(machine, graphs)

    molecules = came["molecules"]
    assert molecules["row"].tolist() == [1, 1, 3, 3, 4, 4]
    assert molecules["target"].tolist() == ["a", "b"] * 3
    assert molecules["smiles"].tolist() == np.repeat(good, 2).tolist()
    np.testing.assert_allclose(molecules["prediction"], expected.prediction.ravel())
    np.testing.assert_allclose(
        molecules[["atoms", "descriptors", "mean"]].sum(axis=1), molecules["prediction"]
    )
    predicted = machine.predict(graphs).ravel()
    if task == "classification":
        predicted = np.log(predicted / (1 - predicted))
    np.testing.assert_allclose(molecules["prediction"], predicted)

    atoms = came["atoms"]
    assert atoms.columns.tolist() == ["row", "smiles", "atom", "element", "a", "b"]
    np.testing.assert_allclose(atoms[["a", "b"]], expected.atoms, atol=1e-12)
    sums = atoms.groupby("row")[["a", "b"]].sum().to_numpy().ravel()
    np.testing.assert_allclose(sums, molecules["atoms"], atol=1e-12)

    for k in range(3):
        row = molecules[f"nearest_{k + 1}_row"].to_numpy()
        assert row.tolist() == np.repeat(expected.nearest[:, k] + 1, 2).tolist()
        assert molecules[f"nearest_{k + 1}_smiles"].tolist() == [TRAIN[i - 1] for i in row]
        values = [y[i - 1, t] for i, t in zip(row, [0, 1] * 3, strict=True)]
        np.testing.assert_allclose(molecules[f"nearest_{k + 1}_value"], values, rtol=1e-6)
        np.testing.assert_allclose(molecules[f"nearest_{k + 1}_similarity"][::2], expected.similarity[:, k])

    table = expected.substructures
    np.testing.assert_allclose(came["substructures"]["contribution"], table["contribution"])
    drawn = sorted(path.name for path in (tmp_path / "out").glob("*.svg"))
    assert drawn == [f"row-{row}_target-{t}.svg" for row in (1, 3, 4) for t in (1, 2)]


@pytest.mark.usefixtures("both")
def test_substructures_are_shown(tmp_path: Path) -> None:
    data = load_molecules(TRAIN, y=VALUES[:, :1], features="ogb+invariants+descriptors", cache=False)
    machine = MoleculeMachine().fit(data)
    shown = run_explain(machine, tmp_path)["substructures"]
    assert shown.groupby("row").size().max() <= 10
    assert (shown["times"] >= 1).all()
    for _, one in shown[shown["row"] == 1].iterrows():
        elements = [SMILES[0][int(atom)] for atom in str(one["atoms"]).split()]
        letters = [letter for letter in one["fragment"] if letter.isalpha()]
        assert sorted(letters) == sorted(elements)


def test_where_no_atom_adds_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        MoleculeMachine, "_error", lambda self, process, *given: len(process.targets_[0].amplitudes)
    )
    data = load_molecules(TRAIN, y=VALUES[:, :1], features="ogb+invariants+descriptors", cache=False)
    came = run_explain(MoleculeMachine().fit(data), tmp_path)
    assert "predicts from descriptors alone: atoms add nothing" in capsys.readouterr().out
    assert not came["molecules"]["atoms"].any()
    assert came["substructures"].empty
