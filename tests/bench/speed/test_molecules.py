"""That all sides do the same, and that nothing gets lost on the way to the files; never how fast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from wlkernelnn.bench.baselines import chemprop
from wlkernelnn.bench.harness import races
from wlkernelnn.bench.harness.timing import torch_settings
from wlkernelnn.bench.speed import contestants, growth, race
from wlkernelnn.bench.speed import molecules as speed
from wlkernelnn.bench.speed.tables import Options, Table, merged, read_tables, settings, write_tables
from wlkernelnn.cli.main import main as command


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
    options = Options(datasets=["esol", "cep"], threads=[2, 1], precisions=["highest"])
    found = list(settings(options, "dataset", "precision", "threads"))
    assert len(found) == 4
    assert found[1] == {"dataset": "esol", "precision": "highest", "threads": 1}
    options.quick = True
    assert list(settings(options, "dataset", "threads")) == [{"dataset": "esol", "threads": 2}]


@pytest.mark.parametrize(
    ("more", "part", "title"),
    [
        ([], "step", ""),
        (["--molecules=5000", "--rounds=1"], "epoch", ", molecules 1017, rounds 1"),
        (["--rounds=1"], "data", ", molecules 1017, rounds 1"),
        (["--molecules=60"], "growth", ", molecules 60"),
        # Its processes draw their own molecules, and take no turns.
        (["--molecules=60", "--rounds=1"], "memory", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_shortened_table_is_another_one(
    more: list[str], part: str, title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raced(works: list[object], *_: object, rounds: int, **__: object) -> np.ndarray:
        return np.ones((len(works), rounds))

    monkeypatch.setattr(speed, "plot", lambda *_: None)
    monkeypatch.setattr(race, "race_of", lambda kind, *_, **__: table(kind).records)
    monkeypatch.setattr(races, "race", raced)
    monkeypatch.setattr(growth, "race", raced)
    monkeypatch.setattr(growth, "AXES", {"batch": (20,)})
    monkeypatch.setattr(growth, "_steps", lambda *_: [("step", None, 20)])
    monkeypatch.setattr(growth, "_peak", lambda *_: 1_000_000)
    monkeypatch.setattr("wlkernelnn.bench.speed.growth.peak", lambda *_, **__: 1_000_000)
    words = f"--parts=[{part}] --datasets=[chembl2321810] --threads=[1] --precisions=[highest]".split()
    words += ["--output-dir", str(tmp_path)]
    speed.main(words)
    (whole,) = read_tables(tmp_path / "speed.json")
    speed.main([*words, *more])
    tables = read_tables(tmp_path / "speed.json")
    as_before = whole.title.replace(", molecules 1017", "") if part == "data" else whole.title
    assert tables[-1].title == as_before + title
    assert len(tables) == 1 + (tables[-1].title != whole.title)
    assert tables[0].title == whole.title


def test_tables_with_a_scale_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, panel = [], speed._panel
    monkeypatch.setattr(speed, "_panel", lambda table, axis: drawn.append(table.part) or panel(table, axis))
    steps = [{"value": n, "what": "step", "rates": [1.0, 2.0], "peak": 1_000_000 * n} for n in (8, 16)]
    peaks = [{"contestant": "plain PyG", "size": 20, "peak": 1_000_000}]
    data = replace(table("data"), records=[{"what": "store"}])
    scaled = [
        table("step"),
        replace(table("growth", by="channels"), records=steps),
        replace(table("memory"), records=peaks),
    ]
    speed.plot([data], tmp_path / "none.png")
    speed.plot([data, *scaled], tmp_path / "some.png")
    assert drawn == ["step", "growth", "memory"]
    assert [path.name for path in tmp_path.iterdir()] == ["some.png"]
    assert (tmp_path / "some.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.slow
def test_main_measures_every_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contestants.contestant, "__kwdefaults__", {"channels": 8, "iterations": 4})
    # A process for each peak takes seconds; tests/bench/test_memory.py has them.
    monkeypatch.setattr("wlkernelnn.bench.speed.growth.peak", lambda *_, **__: 1_000_000)
    monkeypatch.setattr("wlkernelnn.bench.speed.growth._peak", lambda *_: 1_000_000)
    monkeypatch.chdir(tmp_path)
    speed.main(["--quick", "--datasets=[chembl2321810]", "--molecules=64", "--threads=[1]"])
    stem = Path("runs/quick/speed_quick")
    assert not Path("bench").exists()
    tables = json.loads(stem.with_suffix(".json").read_text(encoding="utf-8"))["tables"]
    parts = [table["part"] for table in tables]
    assert list(dict.fromkeys(parts)) == ["data", "step", "epoch", "inference", "memory", "growth"]
    names = set(contestants.names())
    for found in tables:
        assert found["run"]["mode"] == "quick"
        assert found["run"]["torch"] == torch.__version__
        for record in found["records"]:
            assert all(rate > 0 for rate in record.get("rates", []))
        if found["part"] in ("step", "epoch", "inference", "memory"):
            assert {record["contestant"] for record in found["records"]} == names
    kinds = {row["what"].split(",")[0] for row in tables[0]["records"]}
    assert kinds == {"loader", "store", "featurize", "neighbor_sum"}
    text = stem.with_suffix(".md").read_text(encoding="utf-8")
    assert "(quick)" in text.splitlines()[0]
    assert text.count("\n### ") == len(tables)
    assert stem.with_suffix(".png").read_bytes()[:4] == b"\x89PNG"
    printed = capsys.readouterr().out
    assert "Quick" in printed
    assert ("chemprop is not installed" in printed) != chemprop.installed()


def test_what_is_unknown_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "PARTS", {"data": None})
    for given, message in (
        ("--parts=[steps]", "--parts: expected any of data, got steps"),
        ("--precisions=[medium,hihgest]", "--precisions: expected any of highest, high, medium, got hihgest"),
        ("--readouts=[sum,cat]", "--readouts: expected any of sum, last, got cat"),
        ("--datasets=[cep,hvi]", "--datasets: expected any of .*cep.*, got hvi"),
    ):
        with pytest.raises(ValueError, match=message):
            speed.main([given, "--output-dir", str(tmp_path)])


def test_without_the_compiled_sums_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(speed.fused, "numba_loops", lambda: None)
    assert command(["benchmark", "speed"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        "wlkernelnn benchmark: error: this benchmark compares with the compiled sums: "
        "pip install -e '.[fast]'"
    )


def test_without_chemprop_there_is_no_chemprop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chemprop, "installed", lambda: False)
    without = contestants.names()
    monkeypatch.setattr(chemprop, "installed", lambda: True)
    assert set(contestants.names()) - set(without) == {"chemprop"}
    assert np.all([name in contestants.names() for name in without])
