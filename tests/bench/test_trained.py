from __future__ import annotations

import json
from pathlib import Path

import pytest

from wlkernelnn.bench import trained
from wlkernelnn.bench.trained import (
    TrainedOptions,
    chosen,
    glove_file,
    kept,
    of_recipe,
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


def test_epochs_of_a_recipe() -> None:
    record = {"recipe": {"epochs": 5}, "published_epochs": 100}
    assert of_recipe(record) == "5, shortened from 100"
    assert of_recipe(record | {"published_epochs": 5}) == "5"


def test_limits() -> None:
    assert TrainedOptions().limit(100) == 100
    assert TrainedOptions(epochs=5).limit(100) == 5
    assert TrainedOptions(epochs=500).limit(100) == 100
    assert TrainedOptions(epochs=5, quick=True).limit(100) == 1


def test_quick_runs_lie_elsewhere() -> None:
    assert TrainedOptions(quick=True).folder("a") != TrainedOptions().folder("a")


def test_names() -> None:
    assert chosen("models", None, {"a": 1, "b": 2}) == ["a", "b"]
    assert chosen("models", ["b"], {"a": 1, "b": 2}) == ["b"]
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
