from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from wlkernelnn.bench.language import documents
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import WordVectors, load_documents

NEWS = ("a war in the land", "they won the game", "the price of oil", "a new chip")
VECTORS = "the 1 0 0\nwar 0 2 0\ngame 0 0 1\noil 1 1 0\nchip 0 1 1\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "data" / "ag_news"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    labels = rng.choice(4, 120, p=[0.4, 0.2, 0.2, 0.2])
    (folder / "train_sample.csv").write_text("".join(f'"{y + 1}","{NEWS[y]}"\n' for y in labels))
    (folder / "test.csv").write_text("".join(f'"{y + 1}","{text}",""\n' for y, text in enumerate(NEWS)))
    (tmp_path / "vectors.txt").write_text(VECTORS)
    monkeypatch.setattr(documents, "CHANNELS", 6)
    monkeypatch.setattr(documents, "load_documents", partial(load_documents, num_valid=100))
    monkeypatch.setitem(documents.RECIPES["release"].training, "steps_per_epoch", 3)
    return tmp_path


def run(root: Path, *more: str, name: str = "documents_ag_news") -> dict[str, list[documents.Record]]:
    arguments = (
        f"benchmark documents --root {root / 'data'} --glove {root / 'vectors.txt'} --sets ag_news "
        f"--run-dir {root / 'runs'} --output-dir {root / 'out'}"
    )
    assert main([*arguments.split(), *more]) == 0
    return json.loads((root / "out" / f"{name}.json").read_text())


def test_table(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = run(root, "--epochs", "1")["runs"]
    assert {(record["model"], record["ngram"]) for record in runs} == {
        (model, ngram) for model in documents.ROWS for ngram in (1, 3)
    }
    trained = [record for record in runs if record["epochs"]]
    assert len(runs) - len(trained) == 4
    assert {record["training"]["clip"] for record in trained} == {"value"}
    assert all(record["training"]["balance"] for record in runs)
    by_name = {(record["model"], record["ngram"]): record for record in runs}
    assert by_name["rkm_cifg", 3]["paper"] == "92.39"
    assert by_name["gated_cnn", 1]["report"] == "91.15"
    table = (root / "out" / "documents_ag_news.md").read_text()
    assert table.startswith("# Documents: AG News (full)\n")
    assert "| Linear Kernel w/ o_t | 3 | " in table
    assert " 1 of 80 |" in table
    assert "**a sample of 120 of 120,000 training documents" in table
    assert "weighted in the loss" in table
    assert "full" in capsys.readouterr().out


def test_recipe_of_the_report(root: Path) -> None:
    runs = run(root, "--recipe", "report", "--quick", "--models", "cnn", name="documents_ag_news_report")[
        "runs"
    ]
    assert [record["ngram"] for record in runs] == [1, 3]
    assert {record["training"]["batch_size"] for record in runs} == {64}
    assert {record["training"]["gradient_clip"] for record in runs} == {0}
    table = (root / "out" / "documents_ag_news_report.md").read_text()
    assert table.startswith("# Documents: AG News, recipe of the report (quick)\n")
    assert json.loads((root / "out" / "documents_ag_news_report.json").read_text())["mode"] == "quick"


def test_more_epochs_go_on(root: Path) -> None:
    arguments = ("--models", "linear", "--ngrams", "3")
    (first,) = run(root, *arguments, "--epochs", "1")["runs"]
    (second,) = run(root, *arguments, "--epochs", "2")["runs"]
    assert (second["history"][0], second["epochs"]) == (first["history"][0], 2)


def test_networks_of_the_recipes() -> None:
    vectors = WordVectors(torch.randn(9, 300), torch.ones(9, dtype=torch.bool), 0)
    for recipe, width, name, drop in (("release", 300, "ReLU", 0.5), ("report", 200, "Sigmoid", 0.0)):
        net = documents.build("cnn", 3, documents.RECIPES[recipe], vectors, 4)
        first, act, dropout, last = net.head
        assert (first.out_features, last.in_features, last.out_features) == (width, width, 4)
        assert type(act).__name__ == name
        assert (dropout.p, net.embedding_dropout.p) == (drop, 0.0)
        assert net.embedding.weight.requires_grad


def test_weights_are_those_of_the_paper() -> None:
    """Table 2, m = d = 300."""
    vectors = WordVectors(torch.randn(2, 300), torch.ones(2, dtype=torch.bool), 0)
    for ngram, expected in (
        (1, (720, 720, 540, 360, 180, 180, 90)),
        (3, (1_440, 1_440, 1_080, 720, 360, 540, 270)),
    ):
        for name, thousands in zip(documents.MODELS, expected, strict=True):
            net = documents.build(name, ngram, documents.RECIPES["release"], vectors, 4)
            assert documents.num_weights(net) == 1_000 * thousands


@pytest.mark.parametrize(
    ("recipe", "name"), [("release", "linear"), ("report", "cnn"), ("release", "rkm_lstm")]
)
def test_layers_of_the_recipes(recipe: str, name: str) -> None:
    """Layer norm, σ_i² and the forget bias, which the network shows in what it computes."""
    vectors = WordVectors(torch.randn(9, 4), torch.ones(9, dtype=torch.bool), 0)
    layer = documents.build(name, 1, documents.RECIPES[recipe], vectors, 4).encoder
    norm, cnn_sigma_i2, forget_bias = {"release": ("state", 1.0, 1.0), "report": ("output", 0.5, 0.0)}[recipe]
    assert layer.layer_norm == norm
    if name == "rkm_lstm":
        assert layer.scale_i is None
        f = layer.bias.split(documents.CHANNELS)[layer.cell.biased.index("forget")]
        torch.testing.assert_close(float(f.detach().mean()), forget_bias, rtol=0, atol=0.02)
    else:
        assert layer.scale_i() == (cnn_sigma_i2 if name == "cnn" else 0.5)
    if name == "linear":
        expected = "learned" if recipe == "release" else 0.5
        assert (layer.scale_i.decay, layer.scale_f.decay) == (expected, expected)


def test_runs_with_other_vectors_and_precisions_stay_apart(root: Path) -> None:
    arguments = ("--models", "cnn", "--ngrams", "1", "--epochs", "1")
    run(root, *arguments)
    run(root, *arguments, "--matmul-precision", "medium")
    (root / "vectors.txt").write_text(VECTORS.replace("2", "3"))
    (root / "out" / "documents_ag_news.json").unlink()
    run(root, *arguments)
    assert len(list((root / "runs").rglob("result.json"))) == 3


def test_sets_that_are_missing_are_told_before_training(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = []
    monkeypatch.setattr(documents, "trial", lambda *arguments: trained.append(arguments))
    arguments = f"--root {root / 'data'} --glove {root / 'vectors.txt'} --sets ag_news yelp_full"
    assert main(f"benchmark documents {arguments} --output-dir {root / 'out'}".split()) != 0
    assert "yelp_full/train.csv is not in" in capsys.readouterr().err
    assert not trained


def test_names_that_are_not_there(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ("--ngrams 2", "--ngrams: expected any of 1, 3, got 2"),
        ("--models ran", "--models: expected any of lstm, .* got ran"),
        ("--sets imdb", "--sets: expected any of ag_news, .* got imdb"),
    ):
        assert main(f"benchmark documents --root {root / 'data'} {arguments}".split()) != 0
        captured = capsys.readouterr().err
        assert message.partition(" .* ")[0] in captured
