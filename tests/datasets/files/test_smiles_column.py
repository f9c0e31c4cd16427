from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from wlkernelnn.datasets import load_molecules, molecules_from


def test_the_smiles_column(tmp_path: Path) -> None:
    assert len(molecules_from(pd.DataFrame({"structure": ["C", "CC"]}))) == 2
    assert molecules_from(pd.DataFrame({"id": ["C"], "Smiles": ["CC"]})).smiles == ["CC"]
    assert molecules_from(pd.DataFrame({"a": ["C"], "b": ["CC"]}), smiles_column="b").smiles == ["CC"]
    with pytest.raises(ValueError, match=r"the data frame: no column 'smiles' \(columns: 'a', 'b'\)"):
        molecules_from(pd.DataFrame({"a": ["C"], "b": ["CC"]}))
    (tmp_path / "t.csv").write_text("smile,y\nC,1\n")
    with pytest.raises(ValueError, match=r"t\.csv: no column 'smiles'; did you mean 'smile'\?"):
        load_molecules(str(tmp_path / "t.csv"))


def test_several_columns_called_smiles() -> None:
    frame = pd.DataFrame({"SMILES": ["C"], "smiles": ["CC"], "Smiles": ["CCC"]})
    assert molecules_from(frame).smiles == ["CC"]
    with pytest.raises(ValueError, match="columns SMILES, Smiles: say which one holds the SMILES"):
        molecules_from(frame.drop(columns="smiles"))
    assert molecules_from(frame, smiles_column="Smiles").smiles == ["CCC"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "CCO\nCCN\n",
            "the only column is called 'CCO', which is a SMILES: expected a first line with",
        ),
        (
            "a.csv",
            "smiles;name\nCCO;ethanol\n",
            "the only column is called 'smiles;name': is ';' its separator",
        ),
        (
            "a.tsv",
            "smiles,name\nCCO,ethanol\n",
            "the only column is called 'smiles,name': is ',' its separator",
        ),
        (
            "a.csv",
            "smiles\tname\nCCO\tethanol\n",
            r"is '\\t' its separator\? Expected ',' \(in files called",
        ),
    ],
)
def test_tables_that_are_misread(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        load_molecules(tmp_path / name, cache=False)


def test_the_only_column_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "quoted.csv").write_text('"structure, as drawn"\nCCO\n')
    assert load_molecules(tmp_path / "quoted.csv", cache=False).smiles == ["CCO"]
    (tmp_path / "table.csv").write_text("structure\nCCO\nCCN\n")
    assert load_molecules(tmp_path / "table.csv", cache=False).smiles == ["CCO", "CCN"]
