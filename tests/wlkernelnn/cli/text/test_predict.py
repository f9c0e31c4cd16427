from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.inputs.texts import WORDS
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import EOS, Vocabulary
from wlkernelnn.sequence import RKM, LanguageModel
from wlkernelnn.training import TextColumns, load_string_run, save_checkpoint
from wlkernelnn.training.screening import filling


def predict(model: Path, given: Path, output: Path, *more: Any) -> int:
    words = ["--test-path", given, "--model-path", model, "--preds-path", output, *more]
    return main(["text", "predict", *map(str, words)])


@pytest.fixture
def given(tmp_path: Path) -> Path:
    frame = pd.DataFrame({"id": range(4), "text": ["goal team", "snow", "", "soup unheard"], "label": "?"})
    frame.to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def test_rows_keep_their_order(
    run: Path, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(run, given, tmp_path / "out.csv", "--probabilities") == 0
    assert "4 rows in = 3 predicted + 1 rejected" in capsys.readouterr().out
    out = pd.read_csv(tmp_path / "out.csv")
    each = [f"label_p_{name}" for name in sorted(WORDS)]
    assert out.columns.tolist() == ["id", "text", "label", "label_pred", "label_probability", *each]
    assert out["label"].tolist() == ["?"] * 4
    assert out["label_pred"].tolist()[:2] == ["sport", "weather"]
    assert out["label_pred"].isna().tolist() == [False, False, True, False]
    np.testing.assert_allclose(out[each].max(axis=1), out["label_probability"], rtol=1e-6)
    rejects = pd.read_csv(tmp_path / "out.rejects.csv")
    assert rejects[["row", "reason"]].to_numpy().tolist() == [[3, "no text"]]
    model = load_string_run(run)
    probability = model.probabilities(model.encode([["goal", "team"], ["soup", "unheard"]]))
    np.testing.assert_allclose(out[each].to_numpy()[[0, 3]], probability, rtol=1e-5)


def test_skipped_or_refused(
    run: Path, given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert predict(run, given, tmp_path / "out.parquet", "--on-invalid", "skip") == 0
    assert pd.read_parquet(tmp_path / "out.parquet")["id"].tolist() == ["0", "1", "3"]
    assert predict(run, given, tmp_path / "no.csv", "--on-invalid", "raise") == 1
    assert "1 of 4 rows give no text" in capsys.readouterr().err


def test_texts_of_another_language(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame({"text": ["la pluie et le vent", "rain"]})
    frame.to_csv(tmp_path / "in.csv", index=False)
    assert predict(run, tmp_path / "in.csv", tmp_path / "out.csv") == 0
    assert "83% of the tokens are unknown to the model" in capsys.readouterr().err


def test_parts_are_resumed(
    run: Path,
    given: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    predict(run, given, tmp_path / "whole.csv")
    monkeypatch.setattr(filling, "ROWS", 2)
    joined = filling.Parts.join

    def stop(parts: Any, path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(filling.Parts, "join", stop)
        assert predict(run, given, tmp_path / "parts.csv") == 130
    assert f"(parts are kept in {tmp_path / 'parts.csv.parts'}: resume goes on)" in capsys.readouterr().err
    assert predict(run, given, tmp_path / "parts.csv") == 1
    assert filling.Parts.join is joined
    assert predict(run, given, tmp_path / "parts.csv", "--resume") == 0
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    whole = tmp_path / "whole.rejects.csv"
    assert (tmp_path / "parts.rejects.csv").read_bytes() == whole.read_bytes()


def test_a_language_model(language: Path, given: Path, tmp_path: Path) -> None:
    more = ["--max-tokens", 3, "--top-k", 2]
    assert predict(language, given, tmp_path / "out.csv", *more) == 0
    out = pd.read_csv(tmp_path / "out.csv")
    assert out["perplexity"].isna().tolist() == [False, False, True, False]
    model = load_string_run(language)
    np.testing.assert_allclose(out["perplexity"][0], model.perplexity(["goal team"])[0], rtol=1e-5)
    assert out["continuation"][0] == model.generate("goal team", 3, top_k=2, seed=0)


@pytest.mark.parametrize(
    ("kind", "more", "message"),
    [
        ("language", ["--probabilities"], "a classifier has these, this is a language model"),
        ("run", ["--max-tokens", 3], "a language model writes on, this is a classifier"),
        ("language", ["--temperature", 0.5], "how tokens are drawn: max_tokens says how many"),
        ("language", ["--max-tokens", 3, "--seed", 2**70], "seed must be from 0 to 2^32 - 1, got 11805"),
        ("run", ["--text-columns", "body"], "no column 'body'"),
        ("nowhere", [], "expected a run folder with model_0"),
    ],
)
def test_refused(
    kind: str,
    more: list[Any],
    message: str,
    run: Path,
    language: Path,
    given: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = {"run": run, "language": language, "nowhere": tmp_path}[kind]
    assert predict(model, given, tmp_path / "out.csv", *more) == 1
    assert message in capsys.readouterr().err


def test_a_run_of_molecules(given: Path, run_folder: Path, tmp_path: Path, capsys: Any) -> None:
    assert predict(run_folder, given, tmp_path / "out.csv") == 1
    assert "expected a model of texts or signals, got GraphKernelNetwork" in capsys.readouterr().err


def test_what_is_drawn_depends_on_the_row_alone(language: Path) -> None:
    model, columns = load_string_run(language), TextColumns(max_tokens=3)
    _, (first, second) = columns.values(model, ["goal", "snow"], [[], []], [4, 7])
    assert second == columns.values(model, ["snow"], [[]], [7])[1][0] == model.generate("snow", 3, seed=7)
    assert first == model.generate("goal", 3, seed=4)


def test_texts_that_a_model_cannot_read_are_rejected(tmp_path: Path) -> None:
    """Its vocabulary has no token that stands for others."""
    vocabulary = Vocabulary([*"ab\n"])
    network = LanguageModel(3, RKM(4, 4))
    about: dict[str, Any] = {"task": "language", "level": "characters", "classes": [], "target_names": []}
    save_checkpoint(tmp_path / "run" / "model_0", network, about, vocabulary)
    pd.DataFrame({"text": ["ab", "az", "b"]}).to_csv(tmp_path / "in.csv", index=False)
    assert predict(tmp_path / "run", tmp_path / "in.csv", tmp_path / "out.csv") == 0
    assert pd.read_csv(tmp_path / "out.csv")["perplexity"].isna().tolist() == [False, True, False]
    (reject,) = pd.read_csv(tmp_path / "out.rejects.csv").to_dict("records")
    assert (reject["row"], reject["text"]) == (2, "az")
    assert reject["reason"] == "token 'z' is unknown to the model, which has none to stand for it"
    with pytest.raises(ValueError, match=r"texts\[1\]: token 'z' is not in the vocabulary"):
        load_string_run(tmp_path / "run").perplexity(["ab", "az"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": -3}, "max_tokens must be an integer of at least 0, got -3"),
        ({"max_tokens": 3, "temperature": -1.0}, r"temperature must be at least 0, got -1\.0"),
        ({"max_tokens": 3, "top_k": 0}, "top_k must be an integer of at least 1, got 0"),
    ],
)
def test_columns_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextColumns(**options)


def test_line_ends_of_what_is_written(language: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_string_run(language)
    assert model.vocabulary is not None
    words = [EOS, "the", "the", EOS, EOS, "the", EOS]
    drawn = model.vocabulary.encode(words)
    monkeypatch.setattr(model.networks[0], "generate", lambda *_: drawn)
    assert model.generate("the", len(words)) == "\nthe the\n\nthe\n"
