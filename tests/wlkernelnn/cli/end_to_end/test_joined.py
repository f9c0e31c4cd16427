"""Several columns of SMILES, joined into one molecule of several components, from training to scores."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tests.inputs.molecules import SMALL_RUN, regression_set
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import LinearMachine
from wlkernelnn.training import load_run, predict


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    data = regression_set()
    solvent = ["O", "CO", "CCOCC"] * 20
    return pd.DataFrame({"drug": data.smiles, "solvent": solvent, "Act": data.y[:, 0].numpy()})


def test_from_training_to_scores(
    table: pd.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run, preds = tmp_path / "set.csv", tmp_path / "run", tmp_path / "preds.csv"
    table.to_csv(path, index=False)
    columns = ["--smiles-columns", "drug", "solvent"]
    train = [
        "train",
        "--data-path",
        f"{path}",
        "--target-columns",
        "Act",
        "--output-dir",
        f"{run}",
        *SMALL_RUN,
    ]
    assert main([*train, *columns]) == 1
    assert "expected one column, got 2: drug, solvent; --join-smiles joins them" in capsys.readouterr().err
    assert main([*train, *columns, "--join-smiles"]) == 0
    joined = load_molecules(
        [f"{a}.{b}" for a, b in zip(table["drug"], table["solvent"], strict=True)], cache=False
    )
    model = load_run(run)
    assert model.about["smiles_columns"] == ["drug", "solvent"]
    expected = predict(model.networks[0], joined)[:, 0]

    def predicted(frame: pd.DataFrame, *more: str) -> int:
        frame.to_csv(path, index=False)
        preds.unlink(missing_ok=True)
        return main(
            ["predict", "--test-path", f"{path}", "--model-path", f"{run}", "--preds-path", f"{preds}", *more]
        )

    new = table.drop(columns="Act")
    new.loc[3, "solvent"] = ""
    assert predicted(new) == 0
    found = pd.read_csv(preds)
    assert found["Act"].drop(3).to_numpy() == pytest.approx(expected[new.index != 3], rel=1e-4)
    assert pd.isna(found["Act"][3])
    rejects = pd.read_csv(tmp_path / "preds.rejects.csv")
    assert rejects[["row", "reason"]].to_numpy().tolist() == [[4, "column 'solvent': blank"]]
    other = new.rename(columns={"solvent": "medium"})
    assert predicted(other) == 1
    assert "no column 'solvent'" in (said := capsys.readouterr().err)
    assert "SMILES are joined from the columns drug, solvent" in said
    assert predicted(other, "--smiles-columns", "drug", "medium") == 0
    assert pd.read_csv(preds)["Act"][0] == pytest.approx(expected[0], rel=1e-4)
    assert predicted(other.assign(more="O"), "--smiles-columns", "drug", "medium", "more") == 1
    assert (
        "got drug, medium, more; the model was trained on SMILES joined from drug, sol"
        in capsys.readouterr().err
    )
    table.to_csv(path, index=False)
    assert main(["evaluate", "--data-path", f"{path}", "--model-path", f"{run}"]) == 0
    assert "60 molecules" in capsys.readouterr().out
    command = ["explain", "--test-path", f"{path}", "--model-path", f"{run}", "--drawings", "0"]
    assert main([*command, "--output-dir", f"{tmp_path / 'explained'}"]) == 0


def test_a_machine_remembers_the_columns(table: pd.DataFrame, tmp_path: Path) -> None:
    data = load_molecules(table, smiles_column=["drug", "solvent"], target_columns="Act", cache=False)
    assert LinearMachine().fit(data).about["smiles_columns"] == ["drug", "solvent"]
