"""The race of the machine of texts and scikit-learn's pipeline: its rows, and that both compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from wlkernelnn.bench.harness import timing
from wlkernelnn.bench.language import text_speed
from wlkernelnn.cli.main import main

NEWS = (("war", "peace", "land"), ("game", "goal", "team"), ("oil", "price", "bank"), ("chip", "web", "net"))


def texts(labels: np.ndarray, rng: np.random.Generator) -> list[list[str]]:
    """Two words of the class and one of any."""
    every = sum(NEWS, ())
    return [[*rng.choice(NEWS[y], 2), str(rng.choice(every))] for y in labels]


def test_quick_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_calls", lambda call, min_seconds: 1)
    monkeypatch.setattr(text_speed, "QUICK_TEXTS", 60)
    monkeypatch.setattr(text_speed, "PENALTIES", (1.0, 0.1))
    folder, rng = tmp_path / "data" / "ag_news", np.random.default_rng(0)
    folder.mkdir(parents=True)
    for name, rows, more in (("train_sample", 2_100, ""), ("test", 40, ',""')):
        labels = rng.integers(0, 4, rows)
        rows_of = zip(labels, texts(labels, rng), strict=True)
        lines = [f'"{y + 1}","{" ".join(words)}"{more}\n' for y, words in rows_of]
        (folder / f"{name}.csv").write_text("".join(lines))
    options = ["--root", str(tmp_path / "data"), "--output-dir", str(tmp_path)]
    assert main(["benchmark", "text-speed", "--quick", *options]) == 0
    found = json.loads((tmp_path / "text_speed.json").read_text())
    assert [row["what"] for row in found["rows"]] == ["fit, 60 texts", "fit, 60 texts", "predict, 40 texts"]
    assert all(min(row["ours"], row["theirs"], row["ratio"]) > 0 for row in found["rows"])
    assert all("test accuracy" in found[f"60 texts, {whose}"] for whose in ("ours", *text_speed.SOLVERS))


def test_both_have_the_same_features_and_the_same_model() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 4, 200)
    tokens, new = texts(y, rng), texts(y[:50], rng)
    text_speed.check_features(tokens)
    ours, union = text_speed.fit(tokens, y, 4), text_speed.pipeline()[0]
    features = union.fit_transform(text_speed.joined(tokens))
    exact = LogisticRegression(C=ours.penalty_, tol=1e-9, max_iter=10_000).fit(features, y)
    expected = exact.predict_proba(union.transform(text_speed.joined(new)))
    np.testing.assert_allclose(ours.probabilities(new), expected, atol=1e-3)


def test_other_features_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_speed, "CHARACTERS", 4)
    with pytest.raises(RuntimeError, match="are not scikit-learn's"):
        text_speed.check_features([["rain"], ["rain"]])
