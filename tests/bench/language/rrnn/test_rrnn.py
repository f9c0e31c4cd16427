from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from wlkernelnn.bench.language.rrnn import pictures, rrnn
from wlkernelnn.bench.language.rrnn import tasks as rrnn_tasks
from wlkernelnn.cli.main import main

TREES = "(3 (2 A) (4 (3 lovely) (2 film)))\n(1 (2 A) (0 (1 bad) (2 film)))\n(2 (2 A) (2 film))\n"
VECTORS = "a 1 0 0\nfilm 0 2 0\nlovely 0 0 1\n"
WORDS = "the film is a lovely film\nthe dog is bad\n"


@pytest.fixture
def root(tmp_path: Path, letters: Path) -> Path:
    """Little data, small networks."""
    for folder in ("sst/trees", "ptb"):
        (letters / folder).mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (letters / "sst" / "trees" / f"{part}.txt").write_text(TREES)
    for part in ("train", "valid", "test"):
        (letters / "ptb" / f"ptb.{part}.txt").write_text(40 * WORDS)
    (tmp_path / "vectors.txt").write_text(VECTORS)
    return tmp_path


def run(root: Path, *more: str) -> list[rrnn.Record]:
    arguments = (
        f"benchmark rrnn --root {root / 'data'} --glove {root / 'vectors.txt'} --run-dir {root / 'runs'} "
        f"--output-dir {root / 'out'}"
    )
    assert main([*arguments.split(), *more]) == 0
    return [
        record
        for task in rrnn_tasks.TASKS
        if (path := root / "out" / f"rrnn_{task}.json").is_file()
        for record in json.loads(path.read_text())["runs"]
    ]


def test_quick(root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[str, str]] = []

    def draw(records: list[rrnn.Record], path: Path) -> None:
        drawn.append((records[0]["task"], path.name))
        if len(drawn) == 1:  # one takes as long as the training
            pictures.draw(records, path)

    monkeypatch.setattr(rrnn, "draw", draw)
    runs = run(root, "--quick")
    assert [(record["task"], record["model"]) for record in runs] == [
        (task, name) for task in rrnn_tasks.TASKS for name in rrnn_tasks.TASKS[task].models
    ]
    assert {record["epochs"] for record in runs} == {1}
    assert {bool(record["common_trees"]) for record in runs if record["model"] == "gru"} == {False}
    table = (root / "out" / "rrnn_wiki-5k.md").read_text()
    assert table.startswith("# Recursive-recurrent networks: Wiki-5k (quick)\n")
    assert "| Wiki-5k (bpc) | RRNN | " in table
    assert "| 0 of 1 |" in table  # one epoch is not the recipe's end
    assert "| Wiki-5k | RRNN | " in table  # its gradients
    assert drawn == [(task, f"rrnn_{task}.png") for task in rrnn_tasks.TASKS]
    assert (root / "out" / drawn[0][1]).read_bytes().startswith(b"\x89PNG")
    assert "quick" in capsys.readouterr().out


@pytest.mark.slow
def test_more_epochs_go_on(root: Path) -> None:
    arguments = ("--tasks", "wiki-10k", "--models", "rrnn-gru", "--rates", "2")
    first = run(root, *arguments, "--epochs", "1")
    second = run(root, *arguments, "--epochs", "2")
    assert [record["recipe"]["lr"] for record in second] == [pytest.approx(1e-3 / 3), 1e-3]
    assert [r["history"][0] for r in second] == [r["history"][0] for r in first]
    assert {record["epochs"] for record in second} == {2}
    assert [sorted(record["common_trees"]) for record in second] == [
        sorted({"0", str(record["best_epoch"])}) for record in second
    ]
    assert [epoch.get("changed_tuples") is None for epoch in second[0]["history"]] == [True, False]
    assert run(root, *arguments, "--epochs", "1") == second  # nothing is trained again


def test_the_rate_is_chosen_by_validation() -> None:
    def record(task: str, valid: float, lr: float, seed: int = 0) -> rrnn.Record:
        metric = rrnn_tasks.TASKS[task].metric
        return {
            "task": task, "model": "gru", "seed": seed, "metric": metric, "valid": valid, "test": lr,
            "recipe": {"lr": lr}, "epochs": 20, "best_epoch": 4, "stopped": lr < 0.3, "seconds": 40.0,
            "published": ("1", "2"), "parameters": 12_345,
        }  # fmt: skip

    records = [
        record("ptb", 300.0, 0.1), record("ptb", 200.0, 0.2), record("ptb", 250.0, 0.3),
        record("sst", 0.5, 0.1), record("sst", 0.6, 0.2),
        record("sst", 0.7, 0.1, 1), record("sst", 0.6, 0.2, 1),
    ]  # fmt: skip
    diverged = {**record("ptb", math.nan, 0.4), "diverged": 3, "epochs": 3}
    _, ptb, sst = rrnn.TABLE.rows(records)
    assert ptb == (
        "PTB snippets (perplexity)", "GRU", "12k", "0.2 of 3", "1", "20, best 5", "2 of 3",
        "200", "1", "0", "2", "2",
    )  # fmt: skip
    (_, best, *_) = rrnn.TABLE.rows([diverged, *records])
    assert best[:4] == (*ptb[:3], "0.2 of 4")
    assert best[7] == "200"
    (_, alone) = rrnn.TABLE.rows([diverged])
    assert alone[5:8] == ("3, best –", "0 of 1", "diverged at epoch 4")
    assert sst[3] == "0.2, 0.1 of 2"
    (_, partly) = rrnn.TABLE.rows(records[3:-1])
    assert partly[3] == "0.2, 0.1 of 1–2"
    assert sst[7] == "65.0 ± 7.1"
    assert sst[9] == "15.0 ± 7.1"


def test_diagnosed_strings_have_one_length(root: Path) -> None:
    task = rrnn_tasks.TASKS["sst"]
    strings = task.load(str(root / "data"), root / "vectors.txt")
    for name in task.models:
        network = rrnn_tasks.build(name, task, strings)
        found = rrnn.diagnose(network.eval(), strings.valid)
        assert len(found["gradient_norms"]) == 3  # tokens, in two of the three sentences
        assert ("constants" in found) == (name != "gru")
        # What the loss of the label does to h_T is E_T's own gradient.
        if name != "gru":
            assert found["constants"]["c4"] >= found["gradient_norms"][-1] * (1 - 1e-5)


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, error in (
        ("--tasks wiki", "--tasks: expected any of wiki-5k, wiki-10k, sst, ptb, got wiki"),
        ("--models lstm", "--models: expected any of rrnn, rrnn-gru, gru, got lstm"),
        ("--rates 4", "--rates: expected from 1 to 3, got 4"),
        ("--tasks wiki-5k --models rrnn-gru", "--models: wiki-5k has rrnn, gru, got rrnn-gru"),
    ):
        assert main(f"benchmark rrnn {arguments}".split()) != 0
        assert error in capsys.readouterr().err


def test_word_vectors_are_for_tasks_of_words(root: Path) -> None:
    letters, words = ("wiki-5k", "wiki-10k"), ("sst", "ptb")
    data = str(root / "data")
    for task in letters:
        assert next(rrnn.pages(rrnn.RRNNOptions(tasks=[task], root=data))).stem == f"rrnn_{task}"
    for task in words:
        # Before anything is trained.
        with pytest.raises(FileNotFoundError, match=r"glove\.6B\.100d\.subset\.txt is not in"):
            next(rrnn.pages(rrnn.RRNNOptions(tasks=["wiki-5k", task], root=data)))
