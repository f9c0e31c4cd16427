from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from wlkernelnn.bench.harness.runs import Table, fill, on_same_data

MODEL = [("model", lambda runs: runs[0]["model"])]


def test_files(tmp_path: Path) -> None:
    table = Table("Title", [*MODEL, ("runs", lambda runs: str(len(runs)))], lambda run: (0,), "* note\n")
    rows = table.write(tmp_path / "x", {"mode": "quick", "a": 1}, 2 * [{"model": "ours"}])
    assert rows == [("model", "runs"), ("ours", "2")]
    assert (tmp_path / "x.md").read_text().splitlines() == [
        "# Title (quick)",
        "",
        "| model | runs |",
        "| --- | ---: |",
        "| ours | 2 |",
        "",
        "* note",
        "* mode: quick",
        "* a: 1",
    ]
    runs = 2 * [{"model": "ours"}]
    assert json.loads((tmp_path / "x.json").read_text()) == {"mode": "quick", "a": 1, "runs": runs}


def test_rows_are_made_of_the_runs_that_count() -> None:
    table = Table(
        "", [("seeds", lambda runs: str(len(runs)))], lambda run: (0,), counted=lambda runs: runs[1:]
    )
    assert table.rows([_run("x", 0), _run("x", 1), _run("x", 2)]) == [("seeds",), ("2",)]


def test_an_ensemble_stands_behind_its_row() -> None:
    table = Table("", MODEL, lambda run: (run["model"],))
    places = [
        table.place(run) for run in ({"model": "a", "seed": 3}, {"model": "a", "members": []}, {"model": "b"})
    ]
    assert places == sorted(places)
    assert len(set(places)) == 3


def _table(folder: Path, mode: str, *runs: dict[str, object], content: str = "a") -> list[dict[str, object]]:
    """A call of a command that fills a table."""
    known = {"mode": mode, "time": "now", "revision": runs[0]["revision"]}
    places = ["x", "y"]
    table = Table("A table", MODEL, lambda run: (places.index(run["model"]),))
    return fill(folder / "table", table, known, runs, on_same_data("data", {"d": content}))


def _run(model: str, seed: int, revision: str = "aaa", **more: object) -> dict[str, object]:
    return {"model": model, "seed": seed, "revision": revision, "data": "d", "content": "a", **more}


def test_rows_of_a_table_stay(tmp_path: Path) -> None:
    first = [_run("y", 0), _run("y", 1)]
    assert _table(tmp_path, "full", *first) == first
    other = _run("x", 0, "bbb")
    assert _table(tmp_path, "full", other) == [other, *first]
    text = (tmp_path / "table.md").read_text()
    assert "* revision: bbb (x); aaa (y); what is said above is of bbb\n" in text
    assert "* time: now\n" in text
    # A row is of one revision, one precision and one length.
    assert _table(tmp_path, "full", _run("y", 1, recipe={"epochs": 5})) == [
        other,
        _run("y", 1, recipe={"epochs": 5}),
    ]
    assert _table(tmp_path, "full", _run("y", 0, "bbb")) == [other, _run("y", 0, "bbb")]


def test_a_row_is_of_one_environment_and_split(tmp_path: Path) -> None:
    for what in ("torch", "rdkit", "device", "split_sha256"):
        other, first, second = (
            _run(model, seed, **{what: version})
            for model, seed, version in (("x", 0, "1"), ("y", 0, "1"), ("y", 1, "2"))
        )
        assert _table(tmp_path / what, "full", other, first) == [other, first]
        assert _table(tmp_path / what, "full", second) == [other, second]


def test_random_splits_are_those_of_their_seeds(tmp_path: Path) -> None:
    runs = [_run("y", seed, split="random", split_sha256=str(seed)) for seed in range(3)]
    assert _table(tmp_path, "full", *runs) == runs


def test_rows_appear_as_they_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what follows from all of them, which the file has but the next run does not begin with."""
    shown = Table(
        "A table",
        [("number of runs", lambda runs: str(len(runs)))],
        lambda run: (),
        lambda runs: f"* {len(runs)} runs\n",
        which=lambda run: (run["model"], run["seed"]),
    )
    known = {"mode": "quick", "time": "now"}

    def made() -> Iterator[dict[str, object]]:
        for seed in range(2):
            yield _run("x", seed)
            written = json.loads((tmp_path / "table.json").read_text())["runs"]
            assert written == [*(_run("x", earlier) for earlier in range(seed + 1)), _run("all", seed + 1)]
            text = (tmp_path / "table.md").read_text()
            assert f"| {seed + 2} |" in text
            assert f"* {seed + 2} runs\n" in text

    def with_count(runs: list[dict[str, object]]) -> list[dict[str, object]]:
        return [*runs, _run("all", len(runs))]

    runs = fill(tmp_path / "table", shown, known, made(), completed=with_count)
    assert runs == [_run("x", 0), _run("x", 1), _run("all", 2)]
    assert capsys.readouterr().out.count("number of runs") == 1
    assert fill(tmp_path / "table", shown, known, []) == []
    assert not capsys.readouterr().out


def test_quick_tables_and_other_data_begin_anew(tmp_path: Path) -> None:
    _table(tmp_path, "full", _run("y", 0), _run("y", 1, data="other"))
    # What is of a set that this call does not read stays; other content of one that it reads is refused.
    new = _run("x", 0, content="b")
    with pytest.raises(ValueError, match=r"table\.json: holds rows of other data \(y\): move"):
        _table(tmp_path, "full", new, content="b")
    assert _table(tmp_path, "full", _run("x", 0)) == [_run("x", 0), _run("y", 0), _run("y", 1, data="other")]
    with pytest.raises(ValueError, match=r"table\.json: holds a full table, which a quick one would replace"):
        _table(tmp_path, "quick", new)
    for run in (_run("x", 1), _run("x", 2)):
        assert _table(tmp_path / "quick", "quick", run) == [run]
    assert _table(tmp_path / "quick", "full", new) == [new]


def test_tables_of_rows_that_are_no_longer_there(tmp_path: Path) -> None:
    _table(tmp_path, "full", _run("y", 0))
    text = (tmp_path / "table.json").read_text()
    (tmp_path / "table.json").write_text(text.replace('"y"', '"gone"'))
    with pytest.raises(ValueError, match=r"table\.json: has a run that this command does not know"):
        _table(tmp_path, "full", _run("x", 0))
    # A run that does not name its data, as ensembles did not, stays.
    (tmp_path / "table.json").write_text(text.replace('"data": "d"', '"of": "d"'))
    assert len(_table(tmp_path, "full", _run("x", 0))) == 2


def test_damaged_tables_are_named(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text('{"runs": [')
    with pytest.raises(ValueError, match=r"table\.json: not JSON"):
        _table(tmp_path, "full", _run("x", 0))


def test_commands_that_fill_a_table_at_a_time(tmp_path: Path) -> None:
    """Each has read the table before the other wrote its rows."""
    known = {"mode": "full", "time": "now", "revision": "aaa"}
    runs = [_run("x", 0), _run("x", 1), _run("y", 0)]
    shown = Table("A table", MODEL, lambda run: (run["model"],))

    def made() -> Iterator[dict[str, object]]:
        yield runs[0]
        assert fill(tmp_path / "table", shown, known, [runs[2]]) == [runs[0], runs[2]]
        yield runs[1]

    found = fill(tmp_path / "table", shown, known, made())
    assert found == runs
    assert json.loads((tmp_path / "table.json").read_text())["runs"] == runs


def test_earlier_runs_say_nothing_of_their_data() -> None:
    same = on_same_data("data", {"d": "a"})
    assert same({"data": "d"})
    assert same({})
    assert not same({"data": "d", "content": "b"})


def test_what_only_some_runs_know_is_not_said_of_all(tmp_path: Path) -> None:
    known = {"mode": "full", "device": "processor", "command": "now"}
    runs = [
        {"model": "x", "command": "one"},
        {"model": "y", "command": "one", "device": "processor"},
        {"model": "of both", "members": []},
    ]
    Table("Title", MODEL, lambda run: (run["model"],)).write(tmp_path / "x", known, runs)
    text = (tmp_path / "x.md").read_text()
    assert "* device: not recorded (x); processor (y)\n" in text
    assert "* command: one\n" in text
    assert "* mode: full\n" in text
