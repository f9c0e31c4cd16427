from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Batch

from wlkernelnn.bench.language import sst_trees
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import WordVectors, load_sst_trees
from wlkernelnn.training import ClassifierOptions

TREES = "(3 (2 A) (4 (3 lovely) (2 film)))\n(1 (2 A) (0 (1 bad) (2 film)))\n(2 (2 A) (2 film))\n"
VECTORS = "a 1 0 0\nfilm 0 2 0\nlovely 0 0 1\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "sst" / "trees"
    folder.mkdir(parents=True)
    for part in ("train", "dev", "test"):
        (folder / f"{part}.txt").write_text(TREES)
    (tmp_path / "vectors.txt").write_text(VECTORS)
    return tmp_path


def test_table(root: Path) -> None:
    arguments = (
        f"benchmark sst-trees --root {root / 'data'} --glove {root / 'vectors.txt'} --epochs 2 "
        f"--run-dir {root / 'runs'} --output-dir {root / 'out'}"
    )
    assert main(arguments.split()) == 0
    runs = json.loads((root / "out" / "sst_trees.json").read_text())["runs"]
    assert [(run["model"], run["epochs"]) for run in runs] == [("string", 2), ("tree", 2)]
    assert all(run["test_accuracy"] in (0, 1 / 3, 2 / 3, 1) for run in runs)
    assert runs[0]["parameters"] == runs[1]["parameters"]
    assert "| along the tree | " in (root / "out" / "sst_trees.md").read_text()


def test_nodes_read_the_means_of_what_is_below_them(root: Path) -> None:
    trees = load_sst_trees(root / "data")["train"]
    vectors = torch.randn(4, 3)
    model = sst_trees.build("tree", WordVectors(vectors, None, 0), 5).eval()
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].x))
    batch = Batch.from_data_list(trees)
    assert model(batch).shape == (13, 5)
    ids = trees[0].x[trees[0].x >= 0]  # a, lovely, film; then "lovely film", and all
    expected = [*vectors[ids], vectors[ids[1:]].mean(0), vectors[ids].mean(0)]
    torch.testing.assert_close(seen[0][:5], torch.stack(expected))
    right = model(batch)[[4, 9, 12]].argmax(1) == batch.y
    assert sst_trees.tree_accuracy(model, trees) == float(right.double().mean())


def test_a_resumed_training_equals_one_that_did_not_stop(root: Path, tmp_path: Path) -> None:
    trees = load_sst_trees(root / "data")
    vectors = WordVectors(torch.randn(4, 3), None, 0)

    def losses(folder: str, *epochs: int) -> list[float]:
        for number in epochs:
            torch.manual_seed(0)
            model = sst_trees.build("tree", vectors, 5)
            recipe = ClassifierOptions(epochs=number, batch_size=1, accelerator="cpu")
            place = {"directory": tmp_path / folder, "resume": True}
            history = sst_trees.fit_trees(model, trees, "", recipe, **place).history
        return [epoch["train_loss"] for epoch in history]

    assert losses("resumed", 1, 3) == losses("whole", 3)
