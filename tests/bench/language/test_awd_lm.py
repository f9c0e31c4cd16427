from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wlkernelnn.bench.language import awd_lm
from wlkernelnn.cli.main import main
from wlkernelnn.sequence import RKM, LanguageModel, WeightDrop
from wlkernelnn.training import FitResult

SENTENCES = "the cat sat on the mat\nthe dog sat on the log\na cat saw the dog\n"

pytestmark = pytest.mark.filterwarnings("ignore:.*tokens, the (published|usual).*")


def write(folder: Path, names: str) -> None:
    folder.mkdir(parents=True)
    for part, repetitions in (("train", 40), ("valid", 4), ("test", 5)):
        (folder / names.format(part)).write_text(SENTENCES * repetitions)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A treebank of a few sentences."""
    write(tmp_path / "data" / "ptb", "ptb.{}.txt")
    return tmp_path / "data"


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awd_lm, "WIDTHS", (6, 8, 6))


def run(data: Path, folder: Path, *more: str) -> dict[str, object]:
    arguments = f"benchmark awd-lm --root {data} --run-dir {folder / 'runs'} --output-dir {folder / 'out'}"
    assert main([*arguments.split(), *more]) == 0
    return json.loads((folder / "out" / "awd_lm.json").read_text())


@pytest.mark.usefixtures("narrow")
def test_table(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run(data, tmp_path, "--quick")
    runs = result["runs"]
    assert [(record["text"], record["model"]) for record in runs] == [("ptb", name) for name in awd_lm.MODELS]
    assert result["mode"] == "quick"
    for record in runs:
        assert record["epochs"] == 1
        assert not record["stopped"]
        assert 1 < record["test_perplexity"] < 1000
    assert "quick" in capsys.readouterr().out
    table = (tmp_path / "out" / "awd_lm.md").read_text()
    for title, valid, test in (
        ("LSTM", "61.2", "58.9"),
        ("RKM-LSTM", "60.3", "58.2"),
        ("RKM-LSTM, LN", "60.3", "58.2"),
        ("RKM-CIFG", "61.9", "59.5"),
        ("Linear w/ o", "72.3", "69.7"),
    ):
        (line,) = (line for line in table.splitlines() if f"| {title} |" in line)
        assert line.startswith("| PTB |")
        assert "| 1 of 500 | – |" in line
        assert f"| {valid} |" in line
        assert f"| {test} |" in line


@pytest.mark.usefixtures("narrow")
def test_wikitext_has_rows_if_it_is_there(data: Path, tmp_path: Path) -> None:
    write(data / "wikitext-2", "wiki.{}.tokens")
    runs = run(data, tmp_path, "--models", "rkm-cifg", "--epochs", "1")["runs"]
    assert [record["text"] for record in runs] == ["ptb", "wikitext-2"]
    assert [record["recipe"]["batch_size"] for record in runs] == [20, 80]
    assert [record["recipe"]["epochs"] for record in runs] == [500, 750]
    assert "| WikiText-2 | RKM-CIFG |" in (tmp_path / "out" / "awd_lm.md").read_text()


@pytest.mark.usefixtures("narrow")
def test_more_epochs_go_on(data: Path, tmp_path: Path) -> None:
    arguments = ("--models", "rkm-lstm-norm", "--epochs")
    (first,) = run(data, tmp_path, *arguments, "1")["runs"]
    (second,) = run(data, tmp_path, *arguments, "2")["runs"]
    assert (second["history"][0], second["epochs"]) == (first["history"][0], 2)


@pytest.mark.usefixtures("narrow")
def test_shortened_recipes(data: Path, tmp_path: Path) -> None:
    recipe = awd_lm.AWDOptions()
    assert awd_lm.shortened(recipe, 200).nonmonotone == 2
    assert awd_lm.shortened(recipe, 20).nonmonotone == 1
    (record,) = run(data, tmp_path, "--models", "lstm", "--shorten", "2")["runs"]
    assert record["stopped"]
    assert "| 2 of 2, shortened from 500 |" in (tmp_path / "out" / "awd_lm.md").read_text()


@pytest.mark.usefixtures("narrow")
def test_learning_rates_are_rows_of_their_own(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--models", "lstm", "--epochs", "1")
    (usual,) = run(data, tmp_path, *arguments)["runs"]
    lower, *others = run(data, tmp_path, *arguments, "--lr", "0.5")["runs"]
    assert others == [usual]  # the table keeps the row it had
    assert (usual["recipe"]["lr"], lower["recipe"]["lr"]) == (30.0, 0.5)
    assert lower["test_perplexity"] != usual["test_perplexity"]
    _, *rows = awd_lm.TABLE.rows([usual, lower])
    assert [row[3] for row in rows] == ["30", "0.5"]
    assert rows[0][9] == f"{usual['test_perplexity']:.1f}"
    # A rate that differs in the seventh digit alone is trained, not taken from the other's folder.
    three = run(data, tmp_path, *arguments, "--lr", "0.5000001")["runs"]
    assert [row["recipe"]["lr"] for row in three] == [0.5, 0.5000001, 30.0]
    with pytest.raises(AssertionError):
        run(data, tmp_path, "--lr", "0")
    assert "lr must be above 0, got 0" in capsys.readouterr().err


def test_averages_are_named_by_their_first_epoch() -> None:
    record = {
        **{"text": "ptb", "model": "lstm", "parameters": 10, "epochs": 9, "seconds": 9.0},
        **{"recipe": {"epochs": 9, "lr": 30.0}, "published_epochs": 9, "published": ("1", "2")},
        **{"valid_perplexity": 60.0, "test_perplexity": 58.0, "averaged_from": 6},
    }
    other = {**record, "seed": 1, "averaged_from": None, "test_perplexity": 59.0}
    lost = {**record, "model": "rkm-lstm", "epochs": 1, "diverged": 1}
    _, row, diverged = awd_lm.TABLE.rows([{**record, "seed": 0}, other, lost])
    assert row[3:7] == ("30", "2", "9 of 9", "7, –")
    assert row[9] == "58.5 ± 0.7"
    assert diverged[5:10] == ("1 of 9", "–", "diverged at epoch 2", "1", "diverged at epoch 2")


@pytest.mark.usefixtures("narrow")
def test_runs_of_other_texts_and_precisions_stay_apart(data: Path, tmp_path: Path) -> None:
    arguments = ("--models", "lstm", "--epochs", "1")
    run(data, tmp_path, *arguments)
    write(tmp_path / "other" / "ptb", "ptb.{}.txt")
    (tmp_path / "other" / "ptb" / "ptb.test.txt").write_text("the dog sat\n" * 9)
    run(data, tmp_path, *arguments, "--matmul-precision", "medium")
    (tmp_path / "out" / "awd_lm.json").unlink()
    run(tmp_path / "other", tmp_path, *arguments)
    assert len(list((tmp_path / "runs").rglob("result.json"))) == 3


def test_size_of_awd_lstm() -> None:
    """24,221,600 weights in the release, whose LSTMs have two biases; the recurrent ones are dropped."""
    net = awd_lm.build(awd_lm.MODELS["lstm"].arguments, 10_000, awd_lm.TEXTS["ptb"])
    assert sum(p.numel() for p in net.parameters()) == 24_221_600 - 4 * (1150 + 1150 + 400)
    assert net.locked
    assert net.encoder.locked
    drops = [module for module in net.modules() if isinstance(module, WeightDrop)]
    assert [tuple(drop.model.get_parameter(drop.weight).shape) for drop in drops] == [
        (4 * d, d) for d in (1150, 1150, 400)
    ]


@pytest.mark.usefixtures("narrow")
def test_initial_weights(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform: embeddings in ±0.1, what an LSTM of d units has in ±1 / √d."""
    seen, fit = [], awd_lm.fit_awd

    def spy(net: LanguageModel, *arguments: Any, **options: Any) -> FitResult:
        layers = [module for module in net.modules() if isinstance(module, RKM)]
        seen.append(float(net.embedding.weight.detach().abs().max()) / 0.1)
        for layer in layers:
            weights = [lin.weight.detach() for lin in (*layer.lins, layer.lin_h)]
            seen.extend(float(weight.abs().max()) * layer.out_channels**0.5 for weight in weights)
        return fit(net, *arguments, **options)

    monkeypatch.setattr(awd_lm, "fit_awd", spy)
    run(data, tmp_path, "--models", "rkm-lstm-norm", "--quick")
    assert len(seen) == 1 + 2 * 2
    assert all(0.9 < largest <= 1.0 for largest in seen)
