"""What ``TextClassifier`` is by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit, cross_val_score

from tests.inputs.texts import WORDS, texts
from wlkernelnn import TextClassifier
from wlkernelnn.cli.main import main

TEXTS, LABELS = texts(60)


@pytest.fixture(scope="module")
def fitted() -> TextClassifier:
    return TextClassifier().fit(TEXTS, LABELS)


def test_it_learns(fitted: TextClassifier) -> None:
    assert fitted.score(TEXTS, LABELS) == 1
    assert fitted.validation_score_ == fitted.machine_.accuracy_ == 1
    assert fitted.predict_proba(TEXTS).shape == (60, 3)
    assert not hasattr(fitted, "ensemble_")
    assert_array_equal(
        TextClassifier(random_state=9).fit(TEXTS, LABELS).predict_proba(TEXTS), fitted.predict_proba(TEXTS)
    )


def test_saved_and_loaded(fitted: TextClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    again = TextClassifier.load(tmp_path / "run")
    assert again.get_params() == fitted.get_params()
    assert_array_equal(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    assert again.validation_score_ == fitted.validation_score_
    pd.DataFrame({"text": TEXTS}).to_csv(tmp_path / "in.csv", index=False)
    words = {"test": tmp_path / "in.csv", "model": tmp_path / "run", "preds": tmp_path / "out.csv"}
    assert main(["text", "predict", *(f"--{name}-path={path}" for name, path in words.items())]) == 0
    assert pd.read_csv(tmp_path / "out.csv")["label"].tolist() == fitted.predict(TEXTS).tolist()


def test_another_model_takes_its_place() -> None:
    texts, labels = TEXTS[:24], LABELS[:24]
    model = TextClassifier().fit(texts, labels)
    model.set_params(model="kernel", hidden_channels=4, epochs=1, validation_fraction=0).fit(texts, labels)
    assert not hasattr(model, "machine_")
    assert len(model.ensemble_.networks) == 1
    model.set_params(model="auto", hidden_channels=128, epochs=20, validation_fraction=0.1)
    model.fit(texts, labels)
    assert not hasattr(model, "ensemble_")


def test_classes_in_the_order_of_numbers() -> None:
    y = np.array([[9, 10, 100][sorted(WORDS).index(label)] for label in LABELS])
    model = TextClassifier(class_weight={100: 2.0}).fit(TEXTS, y)
    assert model.classes_.tolist() == [9, 10, 100]
    assert (model.predict(TEXTS) == y).all()
    few = TextClassifier().fit([*TEXTS[:12], "and the day"], [*y[:12], 100])
    many = TextClassifier(class_weight={100: 9.0}).fit([*TEXTS[:12], "and the day"], [*y[:12], 100])
    assert many.predict_proba(["day"])[0, 2] > few.predict_proba(["day"])[0, 2]


def test_scikit_learns_tools() -> None:
    assert cross_val_score(TextClassifier(), TEXTS, LABELS, cv=2).min() > 0.9
    cv = StratifiedShuffleSplit(1, random_state=0)
    search = GridSearchCV(TextClassifier(), {"ngram": [1, 2]}, cv=cv).fit(TEXTS[:24], LABELS[:24])
    assert search.best_params_["ngram"] in (1, 2)


def test_arguments_of_networks_do_nothing() -> None:
    with pytest.warns(UserWarning, match=r"epochs, lr: arguments of networks .* of model='auto' ignores"):
        TextClassifier(epochs=3, lr=0.1).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="devices=2: the machine of model='auto' trains in one process"):
        clone(TextClassifier()).fit(TEXTS, LABELS, devices=2)


def test_vectors_of_words_are_for_networks(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("goal 1 2\nwind 3 4\n")
    model = TextClassifier(embeddings_path=tmp_path / "vectors.txt", epochs=1, hidden_channels=4)
    assert hasattr(model.fit(TEXTS, LABELS), "ensemble_")
    with pytest.warns(UserWarning, match="embeddings_path: arguments of networks"):
        TextClassifier("spectrum", embeddings_path=tmp_path / "vectors.txt").fit(TEXTS, LABELS)
