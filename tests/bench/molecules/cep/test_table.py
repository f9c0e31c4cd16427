from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from wlkernelnn.bench.molecules.cep.table import MIXED, TOGETHER, with_ensembles


def some_runs(folder: Path, values: dict[str, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Runs of a table in a folder: of each row seed 0, 1, … predicts that value, where 5 is right."""
    (folder / "splits").mkdir()
    (folder / "splits" / "a.json").write_text("{}")
    runs = []
    for model, of_row in values.items():
        for seed, value in enumerate(of_row):
            place = folder / f"{model}-{seed}"
            place.mkdir()
            for part in ("valid", "test"):
                frame = pd.DataFrame({"row": [0], "PCE": [5.0], "PCE_pred": [value]})
                frame.to_csv(place / f"{part}_predictions.csv", index=False)
            scores = {part: {"rmse": abs(value - 5)} for part in ("valid", "test")}
            same = {"split_sha256": "a", "split_file": "splits/a.json", "parameters": 1, "seconds": 1.0}
            more = {"revision": "A", "torch": "1", "content": "a", "folder": place.name, "scores": scores}
            runs.append({"model": model, "seed": seed, **same, **more})
    return runs


def test_rows_count_the_same_together(tmp_path: Path) -> None:
    """However many seeds they have."""
    names = MIXED["ours"]
    runs = some_runs(tmp_path, {"wl-gated": (1.0, 3.0), "wl-paper": (6.0,)})

    def together(runs: list[dict[str, Any]], mixed: tuple[str, ...] = names) -> list[str]:
        return [run["model"] for run in with_ensembles(runs, mixed, tmp_path) if "members" in run]

    *_, of_row, of_both = with_ensembles(runs, names, tmp_path)
    assert (of_row["model"], of_both["model"]) == ("wl-gated", TOGETHER)
    assert of_both["parameters"] == 3
    assert (of_both["revision"], of_both["torch"]) == ("A", "1")
    assert of_row["scores"]["test"]["rmse"] == pytest.approx(3.0)
    assert of_both["scores"]["test"]["rmse"] == pytest.approx(1.0)  # of (1 + 3) / 2 and 6, 4
    # Of one revision and the same packages, with all predictions, and of all rows.
    for other in ({"revision": "B"}, {"torch": "2"}):
        assert together([*runs[:2], runs[2] | other]) == ["wl-gated"]
    assert together(runs[:2]) == ["wl-gated"]
    assert together(runs, ()) == ["wl-gated"]
    (tmp_path / "wl-gated-1" / "test_predictions.csv").unlink()
    assert not together(runs)
    # Those that the table has stay, without predictions, but not beside other runs.
    assert together([*runs, of_row, of_both]) == ["wl-gated", TOGETHER]
    assert not together([*runs[:2], runs[2] | {"revision": "B"}, of_both])
    assert not together([*runs, runs[0] | {"seed": 2}, of_row, of_both])
