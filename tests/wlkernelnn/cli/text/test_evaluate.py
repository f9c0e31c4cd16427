from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.inputs.texts import texts
from wlkernelnn.cli.main import main
from wlkernelnn.training import load_string_run, perplexity


def evaluate(model: Path, given: Path, *more: Any) -> int:
    words = ["--data-path", given, "--model-path", model, *more]
    return main(["text", "evaluate", *map(str, words)])


def test_scores(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, labels = texts(12, seed=5)
    model = load_string_run(run)
    probability = model.probabilities(model.encode([text.split() for text in written]))
    predicted = [model.about["classes"][i] for i in probability.argmax(1)]
    right = sum(one == other for one, other in zip(predicted, labels, strict=True))
    of_food = [one for one, other in zip(predicted, labels, strict=True) if other == "food"]
    pd.DataFrame({"body": written, "kind": labels}).to_csv(tmp_path / "later.csv", index=False)
    more = ["--text-columns", "body", "--target-columns", "kind", "--metrics-path", tmp_path / "m.json"]
    assert evaluate(run, tmp_path / "later.csv", *more) == 0
    report = json.loads((tmp_path / "m.json").read_text())
    assert report["texts"] == 12
    assert report["accuracy"] == pytest.approx(right / 12)
    hits = of_food.count("food")
    precision, recall = hits / predicted.count("food"), hits / 4
    assert report["classes"]["food"] == {"precision": precision, "recall": recall, "count": 4}
    assert 0 < report["log_loss"] < 1
    out = capsys.readouterr().out
    assert "later.csv: 12 texts, 0.0% of their tokens unknown" in out
    assert f"accuracy {right / 12:.4f}" in out


def test_a_class_that_the_run_does_not_know(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, labels = texts(6)
    labels[4] = "politics"
    pd.DataFrame({"text": written, "label": labels}).to_csv(tmp_path / "later.csv", index=False)
    assert evaluate(run, tmp_path / "later.csv") == 1
    err = capsys.readouterr().err
    assert "data row 5 (line 6)" in err
    assert "label 'politics' is none of the classes food, sport, weather" in err
    more = ["--on-invalid", "skip", "--rejects-path", tmp_path / "rejects.csv"]
    assert evaluate(run, tmp_path / "later.csv", *more) == 0
    assert pd.read_csv(tmp_path / "rejects.csv")["row"].tolist() == [5]


def test_a_single_class_has_no_roc_auc(run: Path, tmp_path: Path) -> None:
    pd.DataFrame({"text": ["rain"], "label": ["weather"]}).to_csv(tmp_path / "later.csv", index=False)
    assert evaluate(run, tmp_path / "later.csv", "--metrics-path", tmp_path / "m.json") == 0
    assert json.loads((tmp_path / "m.json").read_text())["roc_auc"] is None


def test_a_language_model(
    language: Path, book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate(language, book, "--metrics-path", tmp_path / "m.json") == 0
    report = json.loads((tmp_path / "m.json").read_text())
    model = load_string_run(language)
    ids = model.vocabulary.encode(  # type: ignore[union-attr]
        [word for line in book.read_text().splitlines() for word in [*line.split(), "<eos>"]]
    )
    assert report["tokens"] == len(ids)
    assert report["perplexity"] == pytest.approx(perplexity(model.networks[0], ids))
    assert report["bits_per_token"] == pytest.approx(math.log2(report["perplexity"]))
    assert evaluate(language, book, "--target-columns", "label") == 1
    assert "the model is a language model" in capsys.readouterr().err
    (tmp_path / "short.txt").write_text("")
    assert evaluate(language, tmp_path / "short.txt") == 1
    assert "expected a text of two tokens or more" in capsys.readouterr().err
    assert main(["text", "evaluate", "--data-path", str(tmp_path), "--model-path", str(language)]) == 1
    assert "is a folder: name the text in it to score" in capsys.readouterr().err


def test_files_that_are_missing(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate(run, tmp_path / "none.csv") == 1
    assert "none.csv: no such file" in capsys.readouterr().err


def test_a_table_is_no_text(language: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text", "evaluate", "--data-path", str(table), "--model-path", str(language)]) == 0
    assert "set.csv: read as a plain text, with its header, commas and labels" in capsys.readouterr().err


def test_what_a_model_cannot_do(run: Path, language: Path) -> None:
    for call in ("perplexity", "generate"):
        with pytest.raises(TypeError, match=f"{call} needs a language model, and this is a classifier"):
            getattr(load_string_run(run), call)(["a"], *([3] if call == "generate" else []))
    model = load_string_run(language)
    with pytest.raises(TypeError, match="texts: expected a list of texts, got one text"):
        model.perplexity("rain")
    with pytest.raises(TypeError, match=r"texts\[1\]: expected a text, got NoneType"):
        model.perplexity(["rain", None])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="prompt: expected a text, got NoneType"):
        model.generate(None, 3)
