from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench.language import sst
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import WordVectors

TREES = "(3 (2 A) (4 (3 lovely) (2 film)))\n(1 (2 A) (0 (1 bad) (2 film)))\n(2 (2 A) (2 film))\n"
VECTORS = "a 1 0 0\nfilm 0 2 0\nlovely 0 0 1\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "sst" / "trees"
    folder.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (folder / f"{part}.txt").write_text(TREES)
    (tmp_path / "vectors.txt").write_text(VECTORS)
    monkeypatch.setattr(sst, "QUICK_STRINGS", 4)
    monkeypatch.setattr(sst, "CHANNELS", 8)
    return tmp_path


def run(root: Path, *more: str) -> dict[str, object]:
    arguments = (
        f"benchmark sst --root {root / 'data'} --glove {root / 'vectors.txt'} --run-dir {root / 'runs'} "
        f"--output-dir {root / 'out'} --seeds 2"
    )
    assert main([*arguments.split(), *more]) == 0
    return json.loads((root / "out" / "sst.json").read_text())


def test_table(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(root, "--epochs", "1", "--seeds", "1")["runs"]
    assert {(r["labels"], r["model"]) for r in runs} == {
        (labels, model) for labels in sst.LABELS for model in sst.MODELS
    }
    assert all(0 <= record["test_accuracy"] <= 1 for record in runs)
    assert {record["oov_types"] for record in runs} == {1}  # bad
    # Layers and a classifier, without the fixed vectors of four words.
    vectors = WordVectors(torch.zeros(4, 3), torch.tensor([True, True, False, True]), 0)
    networks = {name: sst.build(name, "fine", vectors, 5) for name, row in sst.MODELS.items() if row.trained}
    trained = {name: sum(p.numel() for p in net.parameters()) for name, net in networks.items()}
    trained = {name: n - 12 for name, n in trained.items()}
    of_fine = [r for r in runs if r["labels"] == "fine" and r["epochs"]]
    assert {r["model"]: r["parameters"] for r in of_fine} == trained
    table = (root / "out" / "sst.md").read_text()
    assert "| fine | λ gated by x and h | " in table
    assert " | 1 of 5 | 1 | " in table
    assert table.count("): 3-dimensional") == len(sst.LABELS)
    assert "full" in capsys.readouterr().out


def test_each_seed_trains_a_network(root: Path) -> None:
    """Machines draw nothing: they have the first alone."""
    models = ("constant", "machine", "spectrum")
    runs = run(root, "--epochs", "1", "--models", *models, "--labels", "fine")["runs"]
    found = sorted((record["model"], record["seed"]) for record in runs)
    assert found == [("constant", 0), ("constant", 1), ("machine", 0), ("spectrum", 0)]
    assert " | 2 of 5 | 1 | " in (root / "out" / "sst.md").read_text()


def test_missing_words_learn_vectors() -> None:
    vectors = WordVectors(torch.tensor([[1.0, 2], [0, 0], [3, 4], [0, 0]]), torch.tensor([1, 0, 1, 0]) > 0, 0)
    embedding = sst.PartlyLearned(vectors)
    tokens = torch.tensor([3, 0, 1, 3])
    torch.testing.assert_close(embedding(tokens), vectors.weight[tokens])
    embedding(tokens).sum().backward()
    assert embedding.weight.grad is None
    assert embedding.learned.weight.grad.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert [name for name, p in embedding.named_parameters() if p.requires_grad] == ["learned.weight"]


def test_quick(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(root, "--quick", "--models", "constant", "--labels", "binary")["runs"]
    assert len(runs) == 1
    assert runs[0]["epochs"] == 1
    assert "quick" in capsys.readouterr().out


def test_more_epochs_go_on(root: Path) -> None:
    arguments = ("--models", "gated-xh", "--labels", "fine")
    first, _ = run(root, *arguments, "--epochs", "1")["runs"]
    second, _ = run(root, *arguments, "--epochs", "3")["runs"]
    assert second["history"][0] == first["history"][0]
    assert second["epochs"] == 3


def test_unknown_task(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = f"benchmark sst --root {root / 'data'} --labels coarse".split()
    assert main(arguments) != 0
    assert "--labels: expected any of fine, binary, got coarse" in capsys.readouterr().err
