"""SDF, SMILES files and workbooks as tables: every row is there, or says why not."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import rdDistGeom

from wlkernelnn.datasets import load_molecules, read_table
from wlkernelnn.datasets.files.rejects import Unreadable
from wlkernelnn.datasets.files.table_chunks import read_chunks, read_schema

STEREO = ["C[C@H](F)Cl", "C[C@@H](F)Cl", "C/C=C/F", r"C/C=C\F", "[13CH3]O"]
BAD = (
    "bad one\n\n\n  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0000    0.0000    0.0000 Xx  0  0\nM  END\n"
)
EMPTY = "\n\n\n  0  0  0  0  0  0  0  0  0  0999 V2000\nM  END\n"


def block(smiles: str, dimensions: int = 2, v3000: bool = False) -> str:
    molecule = Chem.MolFromSmiles(smiles)
    if dimensions == 3:
        molecule = Chem.AddHs(molecule)
        rdDistGeom.EmbedMolecule(molecule, randomSeed=1)
    else:
        Chem.rdDepictor.Compute2DCoords(molecule)
    return Chem.MolToMolBlock(molecule, forceV3000=v3000)


def sdf(path: Path, records: list[str], encoding: str = "utf-8") -> Path:
    raw = "".join(record + "$$$$\n" for record in records).encode(encoding)
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize(("dimensions", "v3000"), [(2, False), (2, True), (3, False)])
def test_stereochemistry_comes_from_the_structure(tmp_path: Path, dimensions: int, v3000: bool) -> None:
    path = sdf(tmp_path / "t.sdf", [block(smiles, dimensions, v3000) for smiles in STEREO])
    legacy = Chem.GetUseLegacyStereoPerception()
    try:
        for switch in (True, False):  # RDKit's switch for the whole process changes nothing
            Chem.SetUseLegacyStereoPerception(switch)
            assert read_table(path)["smiles"].tolist() == [*map(Chem.CanonSmiles, STEREO)]
            assert Chem.GetUseLegacyStereoPerception() == switch
    finally:
        Chem.SetUseLegacyStereoPerception(legacy)


@pytest.mark.parametrize("name", ["t.sdf", "t.sdf.gz"])
def test_properties_are_columns_and_bad_records_rows(tmp_path: Path, name: str) -> None:
    records = [
        "ethanol" + block("CCO") + ">  <IC50>  (1)\n>10\n\n> <smiles>\nOCC\n\n",
        BAD + "> <IC50>\n12\n\n",
        EMPTY + "> <note>\nµM\nand more\n\n> <IC50>\n\n",
        "CCO\n",
    ]
    path = sdf(tmp_path / name, records)
    frame = read_table(path)
    assert frame.columns.tolist() == ["smiles", "name", "IC50", "sdf_smiles", "note"]
    assert frame["smiles"].tolist() == [
        "CCO",
        Unreadable("bad one", "Element 'Xx' not found"),
        Unreadable("", "no atoms"),
        Unreadable("CCO", "not a MOL block"),
    ]
    assert frame["name"].tolist() == ["ethanol", "bad one", "", "CCO"]
    assert frame["IC50"].tolist() == [">10", "12", "", ""]
    assert frame["note"].tolist() == ["", "", "µM\nand more", ""]
    assert read_schema(path).names == frame.columns.tolist()
    chunks = [*read_chunks(path, 3)]
    assert [chunk.table.num_rows for chunk in chunks] == [3, 1]
    assert [[*chunk.unreadable] for chunk in chunks] == [[1, 2], [0]]
    assert chunks[0].table["smiles"].to_pylist() == ["CCO", None, None]
    lines = [number for chunk in chunks for number in chunk.lines or ()]
    assert lines == frame.index.tolist() == [17, 27, 39, 41]

    data = load_molecules(path, on_invalid="skip", cache=False)
    assert (data.smiles, data.row.tolist()) == (["CCO"], [0])
    assert data.rejects[0] == (1, "bad one", "Element 'Xx' not found")
    with pytest.raises(
        ValueError, match=r"3 of 4 rows .*\n.*data row 2 \(line 27\): 'bad one': Element 'Xx'"
    ):
        load_molecules(path, cache=False)
    # The structure is not the only column that may be meant.
    assert load_molecules(path, smiles_column="sdf_smiles", on_invalid="skip", cache=False).smiles == ["OCC"]


def test_properties_with_names_of_other_columns(tmp_path: Path) -> None:
    """None is lost, whichever comes first."""
    values = {"sdf_smiles": "OC", "smiles": "CO", "sdf_sdf_smiles": "C", "name": "methanol"}
    record = block("CO") + "".join(f"> <{name}>\n{value}\n\n" for name, value in values.items())
    [row] = read_table(sdf(tmp_path / "t.sdf", [record])).to_dict("records")
    renamed = {"smiles": "sdf_sdf_sdf_smiles", "name": "sdf_name"}
    assert row == {"smiles": "CO", "name": "", **{renamed.get(name, name): values[name] for name in values}}


def test_an_sdf_of_another_encoding_without_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "t.sdf"
    path.write_bytes(("\r\n".join([*block("CCO").splitlines(), "> <é>", "µ", ""])).encode("latin-1"))
    frame = read_table(path)
    assert frame.columns.tolist() == ["smiles", "name", "é"]
    assert frame.to_numpy().tolist() == [["CCO", "", "µ"]]


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("CCO ethyl alcohol\n\nC\n", ["smiles", "name"], [["CCO", "ethyl alcohol"], ["C", ""]]),
        ("CCO\tethyl alcohol\r\n", ["smiles", "name"], [["CCO", "ethyl alcohol"]]),
        ("SMILES ID\nCCO 1\n", ["SMILES", "ID"], [["CCO", "1"]]),
        (
            "smiles\tID no\tlogS\nCCO\ta b\t1.5\nC\t\t2\nCC\n",
            ["smiles", "ID no", "logS"],
            [["CCO", "a b", "1.5"], ["C", "", "2"], ["CC", "", ""]],
        ),
    ],
    ids=["names", "tab", "header", "columns"],
)
def test_files_of_smiles(tmp_path: Path, text: str, columns: list[str], rows: list[list[str]]) -> None:
    path = tmp_path / "t.smi"
    path.write_text(text)
    frame = read_table(path)
    assert frame.columns.tolist() == columns
    assert frame.to_numpy().tolist() == rows
    assert load_molecules(path, cache=False).smiles == [row[0] for row in rows]


def test_a_bad_smiles_in_a_file_of_smiles(tmp_path: Path) -> None:
    (tmp_path / "t.smiles.gz").write_bytes(gzip.compress(b"CCO a\n# note\n"))
    data = load_molecules(tmp_path / "t.smiles.gz", on_invalid="skip", cache=False)
    assert [(reject.row, reject.smiles) for reject in data.rejects] == [(1, "#")]
    for name in ("t.smi", "t.sdf"):
        (tmp_path / name).write_text("\n\n")
        with pytest.raises(ValueError, match=rf"{name}: the file is empty"):
            read_table(tmp_path / name)


def test_a_sheet(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in [
        (),
        ("smiles", "y", "n", "when", None),
        ("CCO", 1.5, 2, pd.Timestamp("2026-01-02")),
        (),
        ("C", None, True),
    ]:
        book.active.append(row)
    book.create_sheet("notes")
    book.save(tmp_path / "t.xlsx")
    frame = read_table(tmp_path / "t.xlsx")
    assert frame.columns.tolist() == ["smiles", "y", "n", "when"]
    assert frame.to_numpy().tolist() == [["CCO", "1.5", "2", "2026-01-02"], ["C", "", "True", ""]]
    assert frame.index.tolist() == [3, 5]
    assert "reads the first of 2 sheets, 'Sheet'" in caplog.text
    book.active.append(("CC", 1, 2, 3, 4))
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match=r"data row 3 \(row 6 of the sheet\) has 5 cells, expected 4"):
        read_table(tmp_path / "t.xlsx")
    (tmp_path / "t.xlsx").write_text("smiles\nC\n")
    with pytest.raises(ValueError, match=r"t\.xlsx: not an Excel workbook, or one with a password"):
        read_table(tmp_path / "t.xlsx")


def test_a_sheet_without_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(
        ImportError, match=r"t\.xlsx: Excel needs openpyxl: pip install 'wlkernelnn\[excel\]'"
    ):
        read_table(tmp_path / "t.xlsx")
