"""That all sides do the same, and that nothing gets lost on the way to the files; never how fast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from wlkernelnn.bench import speed, speed_chemprop, speed_contestants
from wlkernelnn.bench.speed_tables import Options, Table, merged, read_tables, settings, write_tables
from wlkernelnn.bench.timing import torch_settings


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small are slower on more, and very slow where other processes want the same cores."""
    with torch_settings(1):
        yield


def table(part: str, run: int = 1, mode: str = "full", **setting: Any) -> Table:
    records = [{"contestant": name, "size": 20, "rates": [1.0, 2.0]} for name in ("plain PyG", "GINE×4")]
    whole = {"dataset": "cep", "readout": "sum", "precision": "highest", "threads": 1} | setting
    return Table(part, whole, records, {"command": f"run {run}", "mode": mode})


def test_a_table_that_is_measured_again_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    old = [table("step"), table("step", threads=2), table("epoch")]
    new = [table("step", run=2, threads=2), table("data", run=2)]
    tables = merged(old, new, ["data", "step", "epoch"])
    assert [(t.part, t.setting["threads"], t.run["command"]) for t in tables] == [
        ("data", 1, "run 2"),
        ("step", 1, "run 1"),
        ("step", 2, "run 2"),
        ("epoch", 1, "run 1"),
    ]
    del tables[0]  # its records have another form
    write_tables(tables, speed.PARTS, "Who is who.", tmp_path / "speed")
    assert read_tables(tmp_path / "speed.json") == tables
    text = (tmp_path / "speed.md").read_text(encoding="utf-8")
    assert text.startswith("# Speed and memory (full)\n\nWho is who.\n")
    assert "### step, dataset cep, readout sum, precision highest, threads 2 (run 2)\n" in text
    assert text.count("* command: run 2\n") == 1


def test_one_quick_table_makes_the_file_quick(tmp_path: Path) -> None:
    write_tables([table("step"), table("epoch", mode="quick")], speed.PARTS, "", tmp_path / "speed")
    assert (tmp_path / "speed.md").read_text(encoding="utf-8").startswith("# Speed and memory (quick)\n")


def test_settings_are_all_combinations() -> None:
    options = Options(datasets=["a", "b"], threads=[2, 1], precisions=["highest"])
    found = list(settings(options, "dataset", "precision", "threads"))
    assert len(found) == 4
    assert found[1] == {"dataset": "a", "precision": "highest", "threads": 1}
    options.quick = True
    assert list(settings(options, "dataset", "threads")) == [{"dataset": "a", "threads": 2}]


def test_main_measures_every_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed_contestants.contestant, "__kwdefaults__", {"channels": 8, "iterations": 4})
    # A process for each peak takes seconds; tests/bench/test_memory.py has them.
    monkeypatch.setattr("wlkernelnn.bench.speed_memory.peak", lambda *_, **__: 1_000_000)
    monkeypatch.setattr("wlkernelnn.bench.speed_growth._peak", lambda *_: 1_000_000)
    command = "--quick --datasets=[chembl2321810] --molecules=64 --threads=[1] --output-dir"
    speed.main([*command.split(), str(tmp_path)])
    tables = json.loads((tmp_path / "speed_quick.json").read_text(encoding="utf-8"))["tables"]
    parts = [table["part"] for table in tables]
    assert list(dict.fromkeys(parts)) == ["data", "step", "epoch", "inference", "memory", "growth"]
    names = set(speed_contestants.names())
    for found in tables:
        assert found["run"]["mode"] == "quick"
        assert found["run"]["torch"] == torch.__version__
        for record in found["records"]:
            assert all(rate > 0 for rate in record.get("rates", []))
        if found["part"] in ("step", "epoch", "inference", "memory"):
            assert {record["contestant"] for record in found["records"]} == names
    kinds = {row["what"].split(",")[0] for row in tables[0]["records"]}
    assert kinds == {"loader", "store", "featurize", "neighbor_sum"}
    text = (tmp_path / "speed_quick.md").read_text(encoding="utf-8")
    assert "(quick)" in text.splitlines()[0]
    assert text.count("\n### ") == len(tables)
    assert (tmp_path / "speed_quick.png").read_bytes()[:4] == b"\x89PNG"
    printed = capsys.readouterr().out
    assert "Quick" in printed
    assert ("chemprop is not installed" in printed) != speed_chemprop.installed()


def test_main_refuses_unknown_parts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"--parts: unknown \['steps'\]; there are data, step, epoch"):
        speed.main(["--parts=[steps]", "--output-dir", str(tmp_path)])


def test_without_chemprop_there_is_no_chemprop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_chemprop, "installed", lambda: False)
    without = speed_contestants.names()
    monkeypatch.setattr(speed_chemprop, "installed", lambda: True)
    assert set(speed_contestants.names()) - set(without) == {"chemprop"}
    assert np.all([name in speed_contestants.names() for name in without])
