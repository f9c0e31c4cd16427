from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench.language import ptb
from wlkernelnn.cli.main import main

SENTENCES = "the cat sat on the mat\nthe dog sat on the log\na cat saw the dog\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A treebank of a few sentences."""
    folder = tmp_path / "data" / "ptb"
    folder.mkdir(parents=True)
    for part, repetitions in (("train", 40), ("valid", 4), ("test", 5)):
        (folder / f"ptb.{part}.txt").write_text(SENTENCES * repetitions)
    return folder.parent


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ptb, "MODELS", {name: _narrow(model) for name, model in ptb.MODELS.items()})


def _narrow(model: ptb.Model) -> ptb.Model:
    return replace(model, width=8, num_layers=2, parameters=ptb.SMALL)


def run(text: Path, folder: Path, *more: str) -> dict[str, object]:
    arguments = f"benchmark ptb --root {text} --run-dir {folder / 'runs'} --output-dir {folder / 'out'}"
    assert main([*arguments.split(), *more]) == 0
    return json.loads((folder / "out" / "ptb.json").read_text())


@pytest.mark.filterwarnings("ignore:.*tokens, the published.*")
def test_table(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(text, tmp_path, "--quick")
    runs = result["runs"]
    assert [record["model"] for record in runs] == list(ptb.MODELS)
    assert result["mode"] == "quick"
    for record in runs:
        assert record["epochs"] == 1
        assert not record["stopped"]
        assert 1 < record["test_perplexity"] < 100
    assert "quick" in capsys.readouterr().out
    table = (tmp_path / "out" / "ptb.md").read_text()
    assert "| λ gated by x and h |" in table
    assert "| 73.6 (69.3) |" in table


def test_more_epochs_go_on(text: Path, tmp_path: Path) -> None:
    (first,) = run(text, tmp_path, "--models", "gated-xh", "--epochs", "1")["runs"]
    (second,) = run(text, tmp_path, "--models", "gated-xh", "--epochs", "2")["runs"]
    assert second["history"][0] == first["history"][0]
    assert second["epochs"] == 2
    (whole,) = run(text, tmp_path / "other", "--models", "gated-xh", "--epochs", "2")["runs"]
    assert whole["test_perplexity"] == second["test_perplexity"]


def test_shortened_recipes(text: Path, tmp_path: Path) -> None:
    recipe = ptb.LanguageOptions()
    short = ptb.shortened(recipe, 10)
    assert (short.epochs, short.decay_from) == (10, 2)
    assert short.lr_decay**8 == pytest.approx(recipe.lr_decay**80)
    (record,) = run(text, tmp_path, "--models", "constant", "--shorten", "2")["runs"]
    assert record["epochs"] == 2
    assert record["stopped"]
    assert "| 2 | 2, shortened from 100 |" in (tmp_path / "out" / "ptb.md").read_text()


def test_widths_fit_the_size() -> None:
    model = ptb.Model("", "", parameters=30_000, num_layers=2, arguments={"feedback": False})
    width = model.fitting_width(100)

    def size(width: int) -> int:
        return sum(p.numel() for p in model.build(100, width).parameters())

    assert abs(size(width) - 30_000) <= min(abs(size(w) - 30_000) for w in (width - 1, width + 1))


def test_size_of_the_paper() -> None:
    """3 layers of 355, gated by x and h, with highway: 5M with the embeddings of 10,000 words."""
    model = ptb.Model("", "", width=355)
    with torch.device("meta"):
        size = sum(p.numel() for p in model.build(10_000, 355).parameters())
    d = 355
    assert size == ptb.SMALL == 10_000 * d + 10_000 + 3 * (d * d + 2 * d * d + d + d * d + d)
