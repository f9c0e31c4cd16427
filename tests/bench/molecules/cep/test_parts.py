from __future__ import annotations

from pathlib import Path

import pytest

from wlkernelnn.bench.molecules.cep.parts import read_parts


def written(folder: Path, **texts: str) -> list[Path]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in texts]


def test_three_files_are_a_table(tmp_path: Path) -> None:
    paths = written(
        tmp_path,
        a="smiles\tpce\nC#N 1.5\r\n[Na+].[Cl-]\t-2\n",
        b='smiles pce\nc1cc"c1 0\n',
        c="x\nNA 3e-1\n",
    )
    table = read_parts(paths)
    assert table.columns.tolist() == ["smiles", "PCE", "split"]
    assert table.to_numpy().tolist() == [
        ["C#N", 1.5, "train"],
        ["[Na+].[Cl-]", -2.0, "train"],
        ['c1cc"c1', 0.0, "valid"],
        ["NA", 0.3, "test"],
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header and lines of a SMILES and its PCE, got nothing"),
        ("x\nC 1\nCC\n", "line 3: expected a SMILES and its PCE, got 'CC'"),
        ("x\nC one\n", "line 2: expected a SMILES and its PCE, got 'C one'"),
        ("x\nC 1\nC inf\n", "line 3: expected a SMILES and its PCE, got 'C inf'"),
        ("x\nC 1 2\n", "line 2: expected a SMILES and its PCE, got 'C 1 2'"),
        ("x\nC 1\nC 1 2 3\n", "expected lines of a SMILES and its PCE .*line 3, saw 4"),
        ("x\nC 1\n\nC 2\n", "line 3: expected a SMILES and its PCE, got ''"),
    ],
)
def test_other_lines_are_told(text: str, message: str, tmp_path: Path) -> None:
    paths = written(tmp_path, train="x\nC 1\n", valid=text, test="x\nC 1\n")
    with pytest.raises(ValueError, match=f"valid: {message}"):
        read_parts(paths)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_parts([tmp_path / "nowhere"] * 3)
    with pytest.raises(ValueError, match="expected a file for each of train, valid, test, got 2"):
        read_parts([tmp_path] * 2)
