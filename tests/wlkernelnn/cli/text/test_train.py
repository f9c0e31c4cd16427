from __future__ import annotations

import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from tests.inputs.texts import SMALL, WORDS, texts, train, train_book, write_book, write_texts
from wlkernelnn.cli.main import main
from wlkernelnn.cli.text.train import GROUPS
from wlkernelnn.datasets import LengthGroupedShuffle, Vocabulary
from wlkernelnn.training import load_checkpoint, load_string_run
from wlkernelnn.training.text import run as runs


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["text", "train", "--help"])
    assert left.value.code == 0
    out = capsys.readouterr().out
    for name in [field.name for source in GROUPS.values() for field in fields(source)]:
        assert re.search(rf"^  --{name.replace('_', '-')}\b", out, re.MULTILINE), name


def test_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text"]) == 0
    assert "train" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["text", "tarin"])
    assert "unknown verb 'tarin'; verbs are train, predict, evaluate" in capsys.readouterr().err


def test_a_run(run: Path, table: Path) -> None:
    report = json.loads((run / "metrics.json").read_text())
    assert report["counts"] == {"train": 48, "valid": 6, "test": 6}
    figures = {"accuracy", "balanced_accuracy", "f1", "mcc", "log_loss", "roc_auc"}
    assert report["scores"]["test"].keys() == figures | {"classes"}
    assert report["test"] == report["scores"]["test"]["accuracy"] > 0.9
    test = pd.read_csv(run / "test_predictions.csv")
    assert (test["label"] == test["label_pred"]).mean() == report["test"]
    probability = test[[f"label_p_{name}" for name in sorted(WORDS)]].to_numpy()
    np.testing.assert_allclose(probability.sum(1), 1, rtol=1e-5)
    assert [sorted(WORDS)[i] for i in probability.argmax(1)] == test["label_pred"].tolist()
    frame = pd.read_csv(table)
    assert frame["text"][test["row"] - 1].tolist() == test["text"].tolist()
    assert json.loads((run / "splits.json").read_text())["test"] == (test["row"] - 1).tolist()
    names = {path.name for path in (run / "model_1").iterdir()}
    assert names == {"config.json", "history.csv", "model.safetensors", "vocabulary.json"}


def test_what_is_loaded_predicts_as_the_run_did(run: Path) -> None:
    model = load_string_run(run)
    assert len(model.networks) == 2
    assert model.about["classes"] == sorted(WORDS)
    test = pd.read_csv(run / "test_predictions.csv")
    probability = model.probabilities(model.encode([text.split() for text in test["text"]]))
    np.testing.assert_allclose(probability[:, 0], test["label_p_food"], rtol=1e-5)
    one = load_string_run(run / "model_0")
    assert len(one.networks) == 1
    assert torch.equal(one.networks[0].head.weight, model.networks[0].head.weight)


def test_the_written_config_gives_the_same_run(run: Path, tmp_path: Path) -> None:
    config = run / "config.yaml"
    assert yaml.safe_load(config.read_text())["task_type"] == "classification"
    assert main(["text", "train", "--config", str(config), "--output-dir", str(tmp_path / "again")]) == 0
    for name in ("test_predictions.csv", "splits.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_options_reach_network_and_training(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = (
        "--model rkm_lstm --num-layers 2 --bidirectional --ngram 3 --level characters --max-length 9 --seed 4"
        " --epochs 1 --group-by-length"
    )
    grouped = set()
    order = LengthGroupedShuffle.__call__

    def watched(self: LengthGroupedShuffle, epoch: int) -> np.ndarray:
        grouped.add(len(self.lengths))
        return order(self, epoch)

    monkeypatch.setattr(LengthGroupedShuffle, "__call__", watched)
    assert train(table, tmp_path / "run", *more.split()) == 0
    assert grouped == {48}  # the training part
    model, about = load_checkpoint(tmp_path / "run" / "model_0")
    layers = model.config["encoder"]["arguments"]
    assert (layers["num_layers"], layers["bidirectional"]) == (2, True)
    cell = layers["cell"]["arguments"]
    assert (cell["variant"], cell["ngram"], cell["in_channels"]) == ("rkm_lstm", 3, 8)
    assert (about["level"], about["max_length"]) == ("characters", 9)
    vocabulary = Vocabulary.load(tmp_path / "run" / "model_0" / "vocabulary.json")
    assert all(len(token) == 1 for token in vocabulary.tokens[1:])


@pytest.mark.parametrize("freeze", [False, True])
def test_vectors_of_a_file(table: Path, tmp_path: Path, freeze: bool) -> None:
    lines = [f"{word} {i} {-i} 0.5" for i, word in enumerate(["goal", "wind", "elsewhere"])]
    (tmp_path / "vectors.txt").write_text("\n".join(lines))
    more = ["--embeddings-path", tmp_path / "vectors.txt", *(["--freeze-embeddings"] if freeze else [])]
    small = ["--data-path", table, "--target-columns", "label", "--output-dir", tmp_path / "run"]
    options = ["--hidden-channels=8", "--epochs=1", "--min-count=1"]
    assert main(["text", "train", *map(str, [*small, *options, *more])]) == 0
    model = load_string_run(tmp_path / "run")
    assert model.vocabulary is not None
    (wind,) = model.vocabulary.encode(["wind"])
    vector = model.networks[0].embedding.weight[wind].tolist()
    assert (vector == [1, -1, 0.5]) == freeze


def test_vectors_of_other_words(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vectors.txt").write_text("Goal 1 2 3\n")
    options = ["--data-path", table, "--target-columns", "label", "--output-dir", tmp_path / "run"]
    assert main(["text", "train", *map(str, options), f"--embeddings-path={tmp_path / 'vectors.txt'}"]) == 1
    assert re.search(r"vectors\.txt: has vectors of none of \d+ tokens", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "1 of 60 rows cannot be used"), ("a goal", "the run to resume has other data")],
    ids=["no text", "another text"],
)
def test_another_table_is_not_resumed(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the run was stays in its folder."""
    table, other, folder = write_texts(tmp_path / "set.csv"), tmp_path / "other.csv", tmp_path / "run"
    assert train(table, folder, "--epochs=1") == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    frame = pd.read_csv(table)
    frame.loc[0, "text"] = text
    frame.to_csv(other, index=False)
    assert train(other, folder, "--epochs=1", "--resume") == 1
    assert message in capsys.readouterr().err
    assert before == {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_texts_that_stand_in_two_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_texts(tmp_path / "set.csv")
    pd.concat([pd.read_csv(table)] * 3).to_csv(table, index=False)
    assert train(table, tmp_path / "run", "--epochs=1") == 0
    assert re.search(r"\d+ of 18 test texts are in the training part too", capsys.readouterr().err)


def test_interrupted_and_resumed(
    run: Path,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole, calls = runs.fit_classifier, []

    def stop_at_the_second(*given: Any, **options: Any) -> Any:
        calls.append(options)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(*given, **options)

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(runs, "fit_classifier", stop_at_the_second)
        assert train(table, folder, "--ensemble-size", 2) == 130
    assert "--resume goes on" in capsys.readouterr().err
    assert not (folder / "metrics.json").exists()
    assert train(table, folder, "--ensemble-size", 2) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert train(table, folder, "--ensemble-size", 2, "--resume", "--hidden-channels", 9) == 1
    assert "the run to resume has hidden_channels=8, but 9 is given" in capsys.readouterr().err
    # What counts is the content of files, not where they lie.
    moved = shutil.copy(table, tmp_path / "moved.csv")
    assert train(moved, folder, "--ensemble-size", 2, "--resume") == 0
    assert (folder / "test_predictions.csv").read_bytes() == (run / "test_predictions.csv").read_bytes()
    moved.write_text(moved.read_text().replace("goal", "wind"))
    assert train(moved, folder, "--ensemble-size", 2, "--resume") == 1
    assert "the run to resume has other data: their content differs" in capsys.readouterr().err
    other = write_texts(tmp_path / "other.csv", 57)
    assert train(other, folder, "--ensemble-size", 2, "--resume") == 1
    assert "the run to resume has another split" in capsys.readouterr().err


def test_rows_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written, labels = texts(60)
    written[3], labels[7], written[9], labels[11] = " ", "", "___", "nan"
    pd.DataFrame({"text": written, "label": labels}).to_csv(tmp_path / "set.csv", index=False)
    assert train(tmp_path / "set.csv", tmp_path / "run") == 1
    err = capsys.readouterr().err
    assert "3 of 60 rows cannot be used (on_invalid='skip' leaves them out)" in err
    assert "data row 4 (line 5): ' ': no text" in err
    assert train(tmp_path / "set.csv", tmp_path / "run", "--on-invalid", "skip", "--epochs=1") == 0
    rejects = pd.read_csv(tmp_path / "run" / "rejects.csv")
    assert rejects.columns.tolist() == ["row", "text", "reason"]
    assert rejects["row"].tolist() == [4, 8, 10]
    assert rejects["reason"].tolist() == ["no text", "no label", "no word or sign in it"]
    assert "nan" in load_string_run(tmp_path / "run").about["classes"]  # a word, like any other


def test_a_column_of_parts(tmp_path: Path) -> None:
    part = np.array(["train"] * 40 + ["valid"] * 10 + ["test"] * 10)
    table = write_texts(tmp_path / "set.csv", part=part)
    assert train(table, tmp_path / "run", "--splits-column", "part", "--epochs=1") == 0
    assert json.loads((tmp_path / "run" / "splits.json").read_text())["valid"] == [*range(40, 50)]


def test_without_validation(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train(table, tmp_path / "patient", "--split-sizes", 0.8, 0, 0.2, "--patience=1") == 1
    assert "patience=1 needs valid" in capsys.readouterr().err
    assert train(table, tmp_path / "run", "--split-sizes", 0.8, 0, 0.2, "--epochs=1") == 0
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["counts"] == {"train": 48, "test": 12}


def test_a_class_that_is_not_in_the_training_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = np.array(["train", "test", "train"] * 20)  # every second one is of the class weather
    table = write_texts(tmp_path / "set.csv", part=part)
    assert train(table, tmp_path / "run", "--splits-column", "part", "--epochs=1") == 0
    assert "weather: no text of this class is in the training part" in capsys.readouterr().err


REFUSED = {
    "no file": (["--data-path", "nowhere.csv"], r"--data-path: nowhere\.csv: no such file"),
    "no column": (["lable"], "no column 'lable'; did you mean 'label'"),
    "row": (["row"], "files of predictions have columns row, text, .*; row would be there twice"),
    "no text column": (["--text-columns", "body"], r"set\.csv: no column 'body'"),
    "two columns": (["--text-columns", "text", "label"], "--text-columns: expected one column, got 2"),
    "numbers": (["score"], "data row 2 .*'score': expected the name of a class, got 0.5"),
    "one class": (["same"], r"set\.csv: expected at least two classes, got 1 \(a\)"),
    "no vectors": (
        ["--embeddings-path", "nowhere.txt", "--embedding-channels", 100],
        r"--embeddings-path: nowhere\.txt: no such file",
    ),
    "no token": (["--min-count", 1000], "min_count=1000: no token occurs so often in 48 texts"),
    "nothing to freeze": (["--freeze-embeddings"], "--freeze-embeddings needs --embeddings-path"),
    "of language": (["--bptt", 3], "--bptt is an option of --task-type language, but the task type is"),
    "of kernels": (
        ["--model", "lstm", "--decay", 0.5],
        "--decay is an option of --model kernel, but .* lstm",
    ),
    "layers": (["--num-layers", 0], "num_layers must be an integer of at least 1"),
    "lr": (["--lr", -1], "lr must be above 0"),
    "both": (["--splits-column", "same", "--data-seed", 1], "give either --data-seed or --splits-column"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more, message = REFUSED[case]
    table = write_texts(tmp_path / "set.csv", same=["a"] * 60, score=np.arange(60) / 2, row=["a", "b"] * 30)
    if more[0] in ("lable", "score", "same", "row"):
        assert train(table, tmp_path / "run", label=more[0]) == 1
    else:
        assert train(table, tmp_path / "run", *more) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "run" / "model_0").exists()


def test_the_table_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_texts(tmp_path / "rejects.csv")
    assert train(table, tmp_path) == 1
    assert "is a file that the run would overwrite" in capsys.readouterr().err


def test_labels_are_needed(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["text", "train", "--data-path", str(table), "--output-dir", str(tmp_path), *SMALL]) == 1
    assert "--target-columns: which column of" in capsys.readouterr().err


def test_a_language_model(language: Path, book: Path) -> None:
    report = json.loads((language / "metrics.json").read_text())
    assert report["metric"] == "perplexity"
    assert sum(report["counts"].values()) == 7 * 120
    assert report["test"] < report["vocabulary"]
    model = load_string_run(language)
    assert model.about["task"] == "language"
    written = model.generate("ball and", 12, seed=3)
    assert written == model.generate("ball and", 12, seed=3)
    assert model.vocabulary is not None
    assert {*written.split()} <= {*model.vocabulary.tokens}


def test_a_language_model_of_characters(tmp_path: Path) -> None:
    book, more = write_book(tmp_path / "book.txt", 20), ("--model", "rkm_lstm", "--epochs", 1)
    assert train_book(book, tmp_path / "run", "--level", "characters", *more) == 0
    model = load_string_run(tmp_path / "run")
    assert len(model.generate("ball", 7, top_k=2, seed=0)) == 7
    with pytest.raises(ValueError, match="temperature must be at least 0"):
        model.generate("ball", 7, -1.0)


def test_a_language_model_has_other_options(
    book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = "--target-columns", "label"
    assert train_book(book, tmp_path / "run", "--task-type", "language", *labels) == 1
    assert "--target-columns is an option of --task-type classification" in capsys.readouterr().err
    assert train_book(book, tmp_path / "run", *labels) == 1
    assert "book.txt: a classifier needs a table, .csv, .tsv or .parquet" in capsys.readouterr().err
    assert train_book(book, tmp_path / "run", "--bidirectional") == 1
    assert "--bidirectional is an option of --task-type classification" in capsys.readouterr().err
    assert train_book(tmp_path / "none.txt", tmp_path / "run") == 1
    assert "none.txt: no such file" in capsys.readouterr().err
    assert train_book(book, tmp_path / "run", "--batch-size", 5000) == 1
    assert "the train part needs at least 5001 tokens for batch_size=5000, got" in capsys.readouterr().err
    (tmp_path / "short.txt").write_text("ball " * 12)
    assert train_book(tmp_path / "short.txt", tmp_path / "run", "--batch-size", 4) == 1
    assert "the test part needs at least 2 tokens, got 1" in capsys.readouterr().err
    assert not (tmp_path / "run" / "model_0").exists()


def test_a_language_model_of_three_files(
    book: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {part: tmp_path / "book" / f"book.{part}.txt" for part in ("train", "valid", "test")}
    files["train"].parent.mkdir()
    for file, count in zip(files.values(), (20, 8, 6), strict=True):
        write_book(file, count)
    assert train_book(tmp_path / "book", tmp_path / "folder", "--epochs", 1) == 0
    assert "cut into" not in capsys.readouterr().out
    others = ["--valid-path", files["valid"], "--test-path", files["test"], "--epochs", 1]
    assert train_book(files["train"], tmp_path / "files", *others) == 0
    reports = [json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("folder", "files")]
    assert [*reports[0]["counts"].values()] == [7 * 20, 7 * 8, 7 * 6]
    assert reports[0]["test"] == reports[1]["test"]
    assert train_book(files["train"], tmp_path / "folder", *others, "--resume") == 0
    assert train_book(files["train"], tmp_path / "cut", "--epochs", 1) == 0
    assert "book.train.txt: cut into train / valid / test, its first / next / last 80% / 10% / 10%" in (
        capsys.readouterr().out
    )


PARTS_REFUSED: dict[str, tuple[list[Any], str]] = {
    "one of two": (["--test-path", "book.txt"], "--valid-path and --test-path, or neither, got --test-path"),
    "nowhere": (["--valid-path", "book.txt", "--test-path", "none"], "--test-path: none: no such file"),
    "folder": (["--data-path", ".", "--valid-path", "book.txt", "--test-path", "book.txt"], "is a folder of"),
    "empty folder": (["--data-path", "."], "expected one file called train, got none"),
    "sizes": (["--data-path", ".", "--split-sizes", 0.5, 0.3, 0.2], "--split-sizes cuts one text into parts"),
}


@pytest.mark.parametrize("case", PARTS_REFUSED)
def test_parts_that_are_refused(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    more, message = PARTS_REFUSED[case]
    assert train_book(write_book(Path("book.txt"), 9), Path("run"), *more) == 1
    assert message in capsys.readouterr().err
