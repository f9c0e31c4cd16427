from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench import trained
from wlkernelnn.bench.trained import (
    Runs,
    TrainedOptions,
    check_shorten,
    chosen,
    glove_file,
    kept,
    of_recipe,
    of_seeds,
    on_same_data,
    spread,
    write_results,
)


def test_runs_are_not_repeated(tmp_path: Path) -> None:
    done = []

    def run(epochs: int, stopped: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            done.append(epochs)
            return {"epochs": epochs, "stopped": stopped}

        return kept(tmp_path / "a" / "seed_0", epochs, train)

    assert run(2)["epochs"] == 2
    assert run(2)["epochs"] == 2
    assert run(1)["epochs"] == 2
    assert run(4, stopped=True)["epochs"] == 4
    assert run(100)["epochs"] == 4  # the recipe ended there
    assert done == [2, 4]


def test_revisions_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(revision: str, folder: str, fails: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            if fails:
                raise KeyboardInterrupt
            return {"epochs": 1, "stopped": True, "revision": revision}

        monkeypatch.setattr(trained, "revision", lambda: revision)
        return kept(tmp_path / folder, 1, train)

    assert run("aaa", "finished") == run("aaa", "finished")
    with pytest.raises(
        ValueError, match=r"finished: holds a run of revision aaa, and this is bbb: delete it"
    ):
        run("bbb", "finished")
    with pytest.raises(KeyboardInterrupt):
        run("aaa", "interrupted", fails=True)
    with pytest.raises(ValueError, match="interrupted: holds a run of revision aaa, and this is bbb"):
        run("bbb", "interrupted")
    assert run("aaa", "interrupted")["epochs"] == 1
    # Runs of before the file said so.
    (tmp_path / "finished" / "revision.txt").unlink()
    with pytest.raises(ValueError, match="holds a run of revision aaa"):
        run("bbb", "finished")


def test_versions_of_packages_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(version: str, fails: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            if fails:
                raise KeyboardInterrupt
            return {"epochs": 1, "stopped": True, "torch": version}

        monkeypatch.setattr(trained, "versions", lambda *names: dict.fromkeys(names, version))
        return kept(tmp_path, 1, train)

    with pytest.raises(KeyboardInterrupt):
        run("1.0", fails=True)
    with pytest.raises(ValueError, match=r"holds a run of wlkernelnn 1\.0, and this is 2\.0: delete it"):
        run("2.0")
    assert run("1.0") == run("1.0")
    # A run of before the file had the packages.
    path = tmp_path / "revision.txt"
    path.write_text(path.read_text().splitlines()[0] + "\n")
    with pytest.raises(ValueError, match=r"holds a run of torch 1\.0, and this is 2\.0: .* of one torch"):
        run("2.0")
    assert run("1.0")["torch"] == "1.0"


def test_a_diverged_run_is_kept_as_json(tmp_path: Path) -> None:
    score = {"epochs": 1, "stopped": True, "score": float("nan")}
    kept(tmp_path, 1, lambda: score)
    assert "NaN" not in (tmp_path / "result.json").read_text()
    again = kept(tmp_path, 1, lambda: score)
    assert spread([again["score"], 1.0]) == spread([score["score"], 1.0]) == "nan ± nan"


def test_seeds_of_a_row() -> None:
    assert of_seeds(3, 5) == "3 of 5"
    assert of_seeds(5, 5) == "5"
    assert of_seeds(7, 5) == "7"


def test_epochs_of_a_recipe() -> None:
    record = {"recipe": {"epochs": 5}, "published_epochs": 100}
    assert of_recipe(record) == "5, shortened from 100"
    assert of_recipe(record | {"published_epochs": 5}) == "5"


def test_limits() -> None:
    assert TrainedOptions().limit(100) == 100
    assert TrainedOptions(epochs=5).limit(100) == 5
    assert TrainedOptions(epochs=500).limit(100) == 100
    assert TrainedOptions(epochs=5, quick=True).limit(100) == 1


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize("name", ["seeds", "epochs"])
def test_there_is_something_to_train(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"--{name}: expected at least 1, got {value}"):
        TrainedOptions(**{name: value})


def test_quick_runs_and_their_tables_lie_elsewhere(tmp_path: Path) -> None:
    assert TrainedOptions(quick=True).folder("a") != TrainedOptions().folder("a")
    assert TrainedOptions().output_dir == Path("bench/results")
    assert TrainedOptions(quick=True, run_dir=tmp_path).output_dir == tmp_path / "quick"
    assert TrainedOptions(quick=True, output_dir=tmp_path).output_dir == tmp_path


def test_what_is_known_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Lightning will train on, which no other part of a record tells."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100")
    for has_gpu, accelerator, device in (
        (False, "auto", "processor"),
        (True, "auto", "NVIDIA H100"),
        (True, "gpu", "NVIDIA H100"),
        (True, "cpu", "processor"),
        (False, "mps", "mps"),
    ):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        known = trained.about_training("zinc", [], TrainedOptions(accelerator=accelerator), "scikit-learn")
        assert known["device"] == device
        assert known["threads"] == torch.get_num_threads()
        assert known["command"] == "wlkernelnn benchmark zinc"
        assert {"torch", "pytorch-lightning", "scikit-learn"} <= set(known)


def test_names() -> None:
    assert chosen("models", None, {"a": 1, "b": 2}) == ["a", "b"]
    assert chosen("models", ["b", "b"], {"a": 1, "b": 2}) == ["b"]
    with pytest.raises(ValueError, match=r"--models: expected any of a, b, got c"):
        chosen("models", ["c", "a"], {"a": 1, "b": 2})


def test_spread() -> None:
    assert spread([1.25]) == "1.2"
    assert spread([1.0, 2.0, 3.0]) == "2.0 ± 1.0"


def test_files(tmp_path: Path) -> None:
    rows = [("model", "test"), ("ours", "1.0")]
    write_results(tmp_path / "x", "Title", rows, "* note\n", {"mode": "quick", "a": 1}, [{"b": 2}])
    assert (tmp_path / "x.md").read_text().splitlines() == [
        "# Title (quick)",
        "",
        "| model | test |",
        "| --- | ---: |",
        "| ours | 1.0 |",
        "",
        "* note",
        "* mode: quick",
        "* a: 1",
    ]
    assert json.loads((tmp_path / "x.json").read_text()) == {"mode": "quick", "a": 1, "runs": [{"b": 2}]}


def test_word_vectors_are_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d\.subset\.txt is not in .* with --glove"):
        glove_file(str(tmp_path))
    path = tmp_path / "glove.6B.100d.subset.txt.gz"
    path.touch()
    assert glove_file(str(tmp_path)) == path


def _table(folder: Path, mode: str, *runs: dict[str, object], content: str = "a") -> list[dict[str, object]]:
    """A call of a command that fills a table."""
    known = {"mode": mode, "time": "now", "revision": runs[0]["revision"]}
    places = ["x", "y"]
    table = Runs(
        folder / "table",
        known,
        lambda run: ((places.index(run["model"]),), (run["seed"],)),
        on_same_data("data", {"d": content}),
    )
    return table.fill(runs, "A table", lambda _: [("model",)], "")


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


@pytest.mark.parametrize("what", ["torch", "rdkit", "device", "split_sha256"])
def test_a_row_is_of_one_environment_and_split(what: str, tmp_path: Path) -> None:
    other, first, second = (
        _run("x", 0, **{what: "1"}),
        _run("y", 0, **{what: "1"}),
        _run("y", 1, **{what: "2"}),
    )
    assert _table(tmp_path, "full", other, first) == [other, first]
    assert _table(tmp_path, "full", second) == [other, second]


def test_random_splits_are_those_of_their_seeds(tmp_path: Path) -> None:
    runs = [_run("y", seed, split="random", split_sha256=str(seed)) for seed in range(3)]
    assert _table(tmp_path, "full", *runs) == runs


def test_rows_appear_as_they_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what follows from all of them, which the file has but the next run does not begin with."""
    known = {"mode": "quick", "time": "now"}
    table = Runs(tmp_path / "table", known, lambda run: ((run["model"],), (run["seed"],)), lambda _: True)

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

    def rows(runs: list[dict[str, object]]) -> list[tuple[str, ...]]:
        return [("number of runs",), (str(len(runs)),)]

    def notes(runs: list[dict[str, object]]) -> str:
        return f"* {len(runs)} runs\n"

    runs = table.fill(made(), "A table", rows, notes, with_count)
    assert runs == [_run("x", 0), _run("x", 1), _run("all", 2)]
    assert capsys.readouterr().out.count("number of runs") == 1
    assert table.fill([], "A table", rows, notes) == []
    assert not capsys.readouterr().out


def test_quick_tables_and_other_data_begin_anew(tmp_path: Path) -> None:
    _table(tmp_path, "full", _run("y", 0), _run("y", 1, data="other"))
    # What is on other data than this call reads stays; what was on the same, with other content, does not.
    new = _run("x", 0, content="b")
    assert _table(tmp_path, "full", new, content="b") == [new, _run("y", 1, data="other")]
    quick = _run("x", 1)
    assert _table(tmp_path, "quick", quick) == [quick]
    assert _table(tmp_path, "full", new) == [new]


def test_recipes_are_made_shorter_only() -> None:
    check_shorten(1, 10)
    check_shorten(10, 10)
    for epochs in (0, 11):
        with pytest.raises(ValueError, match=f"--shorten: expected from 1 to 10 epochs, .* got {epochs}"):
            check_shorten(epochs, 10)


def test_tables_of_rows_that_are_no_longer_there(tmp_path: Path) -> None:
    _table(tmp_path, "full", _run("y", 0))
    text = (tmp_path / "table.json").read_text()
    (tmp_path / "table.json").write_text(text.replace('"y"', '"gone"'))
    with pytest.raises(ValueError, match=r"table\.json: has a run that this command does not know"):
        _table(tmp_path, "full", _run("x", 0))
    # A run that does not name its data, as ensembles did not, stays.
    (tmp_path / "table.json").write_text(text.replace('"data": "d"', '"of": "d"'))
    assert len(_table(tmp_path, "full", _run("x", 0))) == 2


def test_commands_that_fill_a_table_at_a_time(tmp_path: Path) -> None:
    """Each has read the table before the other wrote its rows."""
    known = {"mode": "full", "time": "now", "revision": "aaa"}
    runs = [_run("x", 0), _run("y", 0)]
    tables = [
        Runs(tmp_path / "table", known, lambda run: ((run["model"],), (run["seed"],)), lambda run: True)
        for _ in runs
    ]
    for table, run in zip(tables, runs, strict=True):
        found = table.fill([run], "A table", lambda _: [("model",)], "")
    assert found == runs
    assert json.loads((tmp_path / "table.json").read_text())["runs"] == runs


def test_earlier_runs_say_nothing_of_their_data() -> None:
    stays = on_same_data("data", {"d": "a"})
    assert stays({"data": "d"})
    assert stays({})
    assert not stays({"data": "d", "content": "b"})
