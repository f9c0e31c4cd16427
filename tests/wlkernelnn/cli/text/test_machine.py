"""The machine of texts on the command line: what a table of texts gets by default."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.checks.pages import read
from tests.inputs.texts import WORDS, write_book, write_texts
from wlkernelnn.cli.main import main
from wlkernelnn.machines import TextMachine
from wlkernelnn.training import load_run, load_string_run


def train(path: Path, folder: Path, *more: Any) -> int:
    words = ["--data-path", path, "--target-columns", "label", "--output-dir", folder, *more]
    return main(["text", "train", *map(str, words)])


@pytest.fixture(scope="module")
def machine(table: Path) -> Path:
    folder = table.parent / "machine"
    assert train(table, folder) == 0
    return folder


def test_a_run(machine: Path, table: Path) -> None:
    report = json.loads((machine / "metrics.json").read_text())
    assert report["counts"] == {"train": 48, "valid": 6, "test": 6}
    assert report["test"] == report["scores"]["test"]["accuracy"] == report["left_out"] == 1
    test = pd.read_csv(machine / "test_predictions.csv")
    assert test["label_pred"].tolist() == test["label"].tolist()
    model = load_string_run(machine)
    assert isinstance(model, TextMachine)
    assert model.about["classes"] == sorted(WORDS)
    probability = model.probabilities([text.split() for text in test["text"]])
    np.testing.assert_allclose(probability[:, 0], test["label_p_food"], rtol=1e-5)
    frame = pd.read_csv(table)
    assert frame["text"][test["row"] - 1].tolist() == test["text"].tolist()
    assert json.loads((machine / "splits.json").read_text())["test"] == (test["row"] - 1).tolist()
    assert report["vocabulary"] == len(
        {word for words in WORDS.values() for word in words} | {"and", "the", "day"}
    )


def test_the_written_config_gives_the_same_run(machine: Path, tmp_path: Path) -> None:
    config = machine / "config.yaml"
    assert yaml.safe_load(config.read_text())["model"] == "spectrum"
    assert main(["text", "train", "--config", str(config), "--output-dir", str(tmp_path / "again")]) == 0
    for name in ("test_predictions.csv", "runs.json", "config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (machine / name).read_bytes()


def test_predict_and_evaluate(
    machine: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.csv"
    words = ["--test-path", table, "--model-path", machine, "--preds-path", out, "--probabilities"]
    assert main(["text", "predict", *map(str, words)]) == 0
    frame, truth = pd.read_csv(out), pd.read_csv(table)
    assert (frame["label"] == truth["label"]).all()
    columns = [f"label_p_{name}" for name in sorted(WORDS)]
    np.testing.assert_allclose(frame[columns].max(axis=1), frame["label_probability"])
    assert main(["text", "predict", *map(str, words), "--max-tokens", "3"]) == 1
    assert "a language model writes on, this is a classifier" in capsys.readouterr().err
    assert main(["text", "evaluate", "--data-path", str(table), "--model-path", str(machine)]) == 0
    assert "accuracy 1" in capsys.readouterr().out


def test_a_resumed_prediction_is_of_the_same_machine(machine: Path, table: Path, tmp_path: Path) -> None:
    words = ["--test-path", table, "--preds-path", tmp_path / "out", "--model-path"]
    assert main(["text", "predict", *map(str, [*words, machine])]) == 0
    other = tmp_path / "other"
    assert train(table, other, "--ngram", 1) == 0
    assert main(["text", "predict", *map(str, [*words, machine, "--resume"])]) == 0
    assert main(["text", "predict", *map(str, [*words, other, "--resume"])]) == 1


def test_the_page(machine: Path) -> None:
    page = read(machine / "report.html")
    for section in ("Data", "Model", "Confusion: test", "Calibration", "Worst predictions", "Repeat"):
        assert section in page.text
    assert "Learning curves" not in page.text
    assert "Logistic regression on" in page.text
    assert "log loss of training texts left out" in page.text
    assert "runs of words that speak most for it" in page.text
    assert "cheese" in page.text


def test_options_reach_the_machine(table: Path, tmp_path: Path) -> None:
    more = "--model spectrum --min-count 1 --level characters --max-length 9 --balance --seed 4"
    assert train(table, tmp_path / "run", *more.split()) == 0
    model = load_string_run(tmp_path / "run")
    assert isinstance(model, TextMachine)
    spectrum = model.spectrum_
    assert (spectrum.level, spectrum.min_count) == ("characters", 1)
    assert (model.about["level"], model.about["max_length"]) == ("characters", 9)


REFUSED = {
    "network": (
        ["--hidden-channels", 9],
        "--hidden-channels is an option of --model kernel, but the model is spec",
    ),
    "training": (["--epochs", 9], "--epochs is an option of --model kernel, but the model is spectrum"),
    "members": (["--ensemble-size", 2], "--ensemble-size is an option of --model kernel"),
    "resume": (["--resume"], "--resume is an option of --model kernel"),
    "ngram": (["--ngram", 0], "--ngram must be an integer of at least 1"),
    "no words": (
        ["--level", "characters", "--ngram", 3],
        "--ngram is of runs of words with --model spec",
    ),
    "rare": (["--min-count", 99], "min_count=99: no token is in so many of 48 texts"),
    "language": (["--task-type", "language"], "--target-columns is an option of --task-type classification"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, message = REFUSED[case]
    assert train(table, tmp_path / "run", *more) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run" / "config.json").exists()


def test_no_machine_for_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = write_book(tmp_path / "book.txt", 9)
    words = ["--data-path", book, "--output-dir", tmp_path / "run", "--model", "spectrum"]
    assert main(["text", "train", *map(str, words)]) == 1
    assert "--model spectrum tells classes apart: a language model needs a network" in capsys.readouterr().err


def test_vectors_of_words_are_for_networks(table: Path, tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("goal 1 2\nwind 3 4\n")
    more = ["--embeddings-path", tmp_path / "vectors.txt", "--epochs", 1, "--hidden-channels", 4]
    assert train(table, tmp_path / "run", *more) == 0
    assert yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())["model"] == "kernel"


def test_a_folder_is_not_overwritten(machine: Path, table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, machine) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert train(table, machine, "--model", "kernel", "--epochs", 1) == 1
    assert "holds a run already, of a machine: choose another folder" in capsys.readouterr().err
    network = ["--model", "kernel", "--epochs", 1, "--resume"]
    assert train(table, machine, *network) == 1
    assert "holds a machine, which does not go on" in capsys.readouterr().err
    assert not (machine / "model_0").exists()


def test_one_class_alone_to_train_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = np.array(["train", "test", "test"] * 20)
    table = write_texts(tmp_path / "set.csv", part=part)
    assert train(table, tmp_path / "run", "--splits-column", "part") == 1
    assert "expected training texts of two classes, all 20 are of one" in capsys.readouterr().err


def test_no_model_of_molecules(machine: Path) -> None:
    with pytest.raises(ValueError, match="expected a network of molecules, got a machine of texts"):
        load_run(machine)
