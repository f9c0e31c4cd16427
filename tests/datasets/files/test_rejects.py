from __future__ import annotations

from pathlib import Path

import pandas as pd

from wlkernelnn.datasets import Reject, molecules_from, write_rejects


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
