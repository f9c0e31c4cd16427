from __future__ import annotations

from pathlib import Path

import pytest
import torch

from wlkernelnn.bench.harness import trained
from wlkernelnn.bench.harness.trained import (
    TrainedOptions,
    check_shorten,
    chosen,
    glove_file,
    kept,
)


def test_runs_are_not_repeated(tmp_path: Path) -> None:
    done = []

    def run(epochs: int, stopped: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            done.append(epochs)
            return {"epochs": epochs, "stopped": stopped}

        return kept(tmp_path / "a" / "seed_0", epochs, train, {})

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
        return kept(tmp_path / folder, 1, train, {})

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


def test_quick_runs_of_other_revisions_make_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(revision: str) -> dict[str, object]:
        def train() -> dict[str, object]:
            assert not (tmp_path / "a" / "last.ckpt").exists()
            (tmp_path / "a" / "last.ckpt").touch()
            return {"epochs": 1, "stopped": True, "revision": revision}

        monkeypatch.setattr(trained, "revision", lambda: revision)
        return kept(tmp_path / "a", 1, train, {"mode": "quick"})

    assert run("aaa") == run("aaa")
    assert run("bbb")["revision"] == "bbb"


def test_versions_of_packages_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(version: str, fails: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            if fails:
                raise KeyboardInterrupt
            return {"epochs": 1, "stopped": True, "torch": version}

        monkeypatch.setattr(trained, "versions", lambda *names: dict.fromkeys(names, version))
        return kept(tmp_path, 1, train, {})

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


def test_devices_are_not_mixed(tmp_path: Path) -> None:
    def run(device: str, fails: bool = False) -> dict[str, object]:
        def train() -> dict[str, object]:
            if fails:
                raise KeyboardInterrupt
            return {"epochs": 1, "stopped": True, "device": device}

        return kept(tmp_path, 1, train, {"device": device})

    with pytest.raises(KeyboardInterrupt):
        run("processor", fails=True)
    message = "holds a run of device processor, and this is NVIDIA H100: delete it, .* of one device"
    with pytest.raises(ValueError, match=message):
        run("NVIDIA H100")
    assert run("processor") == run("processor")
    with pytest.raises(ValueError, match=message):
        run("NVIDIA H100")


def test_a_score_that_is_no_number_is_kept_as_json(tmp_path: Path) -> None:
    record = {"epochs": 1, "stopped": True, "score": float("nan")}
    kept(tmp_path, 1, lambda: record, {})
    assert "NaN" not in (tmp_path / "result.json").read_text()
    assert kept(tmp_path, 1, lambda: record, {})["score"] is None


def test_what_a_run_takes_from_the_command() -> None:
    options = TrainedOptions(seeds=3, accelerator="cpu", matmul_precision="medium")
    assert options.of_run(2) == {"seed": 2, "accelerator": "cpu", "matmul_precision": "medium"}
    assert list(options.all_seeds) == [0, 1, 2]
    assert list(TrainedOptions(seeds=3, quick=True).all_seeds) == [0]


def test_limits() -> None:
    assert TrainedOptions().limit(100) == 100
    assert TrainedOptions(epochs=5).limit(100) == 5
    assert TrainedOptions(epochs=500).limit(100) == 100
    assert TrainedOptions(epochs=5, quick=True).limit(100) == 1


def test_there_is_something_to_train() -> None:
    for name, value in (("seeds", 0), ("epochs", -1)):
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


def test_word_vectors_are_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d\.subset\.txt is not in .* with --glove"):
        glove_file(str(tmp_path))
    path = tmp_path / "glove.6B.100d.subset.txt.gz"
    path.touch()
    assert glove_file(str(tmp_path)) == path


def test_recipes_are_made_shorter_only() -> None:
    check_shorten(1, 10)
    check_shorten(10, 10)
    for epochs in (0, 11):
        with pytest.raises(ValueError, match=f"--shorten: expected from 1 to 10 epochs, .* got {epochs}"):
            check_shorten(epochs, 10)
