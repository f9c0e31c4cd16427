from __future__ import annotations

from pathlib import Path

import pandas as pd

from wlkernelnn.datasets import Reject, molecules_from, write_rejects
from wlkernelnn.datasets.files.rejects import Change, counted, write_changes


def test_a_rejects_file_without_rejects(tmp_path: Path) -> None:
    molecules_from(["C"], rejects_path=tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "row,smiles,reason\n"
    write_rejects(
        tmp_path / "b.csv", [Reject(0, 'a,"b"\n', "x"), Reject(4, None, "y"), Reject(5, "nan", "z")]
    )
    assert pd.read_csv(tmp_path / "b.csv", keep_default_na=False).to_numpy().tolist() == [
        [1, 'a,"b"\n', "x"],
        [5, "", "y"],
        [6, "nan", "z"],
    ]


def test_a_file_of_changes(tmp_path: Path) -> None:
    changes = [
        Change(1, "C[NH3+].[Cl-]", "CN", ("fragment", "uncharge")),
        Change(4, "C.O", "C", ("fragment",)),
    ]
    write_changes(tmp_path / "a.csv", changes)
    rows = ["row,before,after,steps", "2,C[NH3+].[Cl-],CN,fragment uncharge", "5,C.O,C,fragment"]
    assert (tmp_path / "a.csv").read_text().splitlines() == rows
    assert counted(changes, 9) == "standardized: 2 of 9 molecules changed (fragment 2, uncharge 1)"
    assert counted([], 9) == "standardized: 0 of 9 molecules changed"
