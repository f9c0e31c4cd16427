from __future__ import annotations

import pandas as pd
import pytest
from rdkit import Chem

from wlkernelnn.datasets import load_molecules
from wlkernelnn.datasets.files.components import joined_smiles, smiles_columns_of
from wlkernelnn.datasets.files.rejects import Unreadable

DRUGS = ["CCO", " CCN ", "C1CC", "CC(C)(C)(C)C", None, "CCO name", "", Unreadable("x", "no bonds"), 5]
SOLVENTS = ["O", "CO", "C1CC", "O", "O", "O", "O", "O", "O"]
REASONS = [
    "unclosed ring",
    "valence",
    "missing",
    "text after the SMILES",
    "blank",
    "no bonds",
    "not a string but int",
]


def test_components_of_each_row() -> None:
    joined = joined_smiles({"drug": DRUGS, "solvent": SOLVENTS}, 5000)
    assert joined[:2] == ["CCO.O", "CCN.CO"]
    for cell, reason in zip(joined[2:], REASONS, strict=True):
        assert isinstance(cell, Unreadable)
        assert cell.reason.startswith("column 'drug': ")
        assert reason in cell.reason
    # An open ring of one component would close in the other.
    assert Chem.MolFromSmiles("C1CC.C1CC") is not None
    [wrong] = joined_smiles({"drug": ["O"], "solvent": ["("]}, 5000)
    assert wrong.reason.startswith("column 'solvent': ")
    assert joined_smiles({"drug": ["C" * 60], "solvent": ["("]}, 50) == [f"{'C' * 60}.("]
    assert joined_smiles({"smiles": DRUGS}, 5000) == DRUGS


def test_columns_of_a_table(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"drug": DRUGS[:7], "solvent": SOLVENTS[:7], "y": range(7)})
    options = {"smiles_column": ["drug", "solvent"], "target_columns": "y", "cache": False}
    data = load_molecules(frame, **options, on_invalid="skip")
    assert data.smiles == ["CCO.O", "CCN.CO"]
    assert data.description.smiles_columns == ("drug", "solvent")
    assert [reject.row for reject in data.rejects] == [2, 3, 4, 5, 6]
    assert all(reject.reason.startswith("column 'drug'") for reject in data.rejects)
    with pytest.raises(ValueError, match=r"'C1CC\.C1CC': column 'drug': .*unclosed ring"):
        load_molecules(frame, **options)
    with pytest.raises(ValueError, match="standardisation keeps the largest component alone"):
        load_molecules(frame, **options, features="ogb+standardize")


def test_columns_that_are_not_there() -> None:
    assert smiles_columns_of(["SMILES", "y"], None, "t") == ["SMILES"]
    with pytest.raises(
        ValueError, match=r"t: no column 'water'.*; SMILES are joined from the columns drug, water"
    ):
        smiles_columns_of(["drug", "y"], ["drug", "water"], "t")
    with pytest.raises(ValueError, match="smiles_column must be different columns, got drug, drug"):
        smiles_columns_of(["drug", "y"], ["drug", "drug"], "t")
