from __future__ import annotations

import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from tests.inputs.edited import edit
from tests.inputs.texts import WORDS, texts
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.texts import is_text_machine, load_text_machine, save_text_machine, text_digest
from wlkernelnn.machines.texts import machine as machine_of_texts
from wlkernelnn.machines.texts.machine import PENALTIES, _folds
from wlkernelnn.machines.texts.spectrum import Spectrum

WRITTEN, LABELS = texts(60)
TOKENS = [text.split() for text in WRITTEN]
NAMES = sorted(WORDS)
Y = np.array([NAMES.index(label) for label in LABELS])
NEW = [["rain", "and", "the", "ball"], ["snow"], ["unseen", "words"], []]


@pytest.fixture(scope="module")
def fitted() -> TextMachine:
    machine = TextMachine().fit(TOKENS, Y, 3)
    machine.about = {
        "task": "classification",
        "level": "words",
        "classes": NAMES,
        "target_names": ["label"],
        "max_length": None,
    }
    return machine


def counted(tokens: list[str], part: str, level: str, ngram: int) -> Counter[str]:
    """The runs of a text, by their definition."""
    pieces: list[Any] = [tokens]
    longest, glue = ngram, " "
    if part == "characters":
        pieces = ["".join(tokens)] if level == "characters" else [f" {word} " for word in tokens]
        longest, glue = 5, ""
    return Counter(
        glue.join(piece[i:j])
        for piece in pieces
        for i in range(len(piece))
        for j in range(i + 1, min(i + longest, len(piece)) + 1)
    )


@pytest.mark.parametrize(
    ("level", "ngram", "min_count"), [("words", 2, 1), ("words", 3, 4), ("characters", 2, 2)]
)
def test_features_are_the_equation(level: str, ngram: int, min_count: int) -> None:
    known = TOKENS if level == "words" else [[*text] for text in WRITTEN]
    new = NEW if level == "words" else [[*" ".join(words)] for words in NEW]
    spectrum = Spectrum(level, ngram, min_count).fit(known)
    features, begin = spectrum.transform(new).toarray(), 0
    assert [*spectrum.runs_] == (["words", "characters"] if level == "words" else ["characters"])
    for part, runs in spectrum.runs_.items():
        of_known = [counted(tokens, part, level, ngram) for tokens in known]
        held = Counter(run for each in of_known for run in each)
        assert set(runs) == {run for run, count in held.items() if count >= min_count}
        for row, tokens in enumerate(new):
            counts = counted(tokens, part, level, ngram)
            value = np.zeros(len(runs))
            for place, run in enumerate(runs):
                if counts[run]:
                    idf = 1 + math.log((1 + len(known)) / (1 + held[run]))
                    value[place] = (1 + math.log(counts[run])) * idf
            expected = value / (np.linalg.norm(value) or 1)
            assert_allclose(features[row, begin : begin + len(runs)], expected, atol=1e-12)
        begin += len(runs)
    assert features.shape == (len(new), begin)
    of_known = Spectrum(level, ngram, min_count).fit_transform(known)
    assert_allclose(of_known.toarray(), spectrum.transform(known).toarray(), atol=1e-15)


def test_it_tells_classes_apart(fitted: TextMachine) -> None:
    probability = fitted.probabilities(TOKENS)
    assert probability.dtype == np.float32
    assert_allclose(probability.sum(1), 1, rtol=1e-6)
    assert (probability.argmax(1) == Y).all()
    assert [NAMES[k] for k in fitted.probabilities(NEW[1:2]).argmax(1)] == ["weather"]
    assert fitted.accuracy_ == 1
    assert fitted.probabilities([]).shape == (0, 3)
    assert fitted.num_unknown(NEW) == 2
    assert fitted.num_parameters == fitted.weights_.size + 3


def test_weights_are_logistic_regression_on_the_kernel(fitted: TextMachine) -> None:
    """The optimum lies in the span of the training texts: only kernel values enter."""
    x = fitted.spectrum_.transform(TOKENS).toarray()
    kernel = x @ x.T
    assert_allclose(kernel.diagonal(), 2)
    # K = L Lᵀ: rows of L are features of the same kernel.
    values, vectors = np.linalg.eigh(kernel)
    root = vectors[:, values > 1e-9] * np.sqrt(values[values > 1e-9])
    same = LogisticRegression(C=fitted.penalty_, max_iter=10_000, tol=1e-8).fit(root, Y)
    assert_allclose(fitted.probabilities(TOKENS), same.predict_proba(root), atol=1e-4)


def test_weak_penalties_are_solved_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probabilities are within 0.001 of the optimum's; scikit-learn's defaults leave them off by 0.2."""
    monkeypatch.setattr(machine_of_texts, "PENALTIES", (256.0,) * 3)
    numbers, share = np.random.default_rng(0), 1 / np.arange(1, 301)

    def text(label: int) -> list[str]:
        odds = share * np.where(np.arange(300) % 4 == label, 2, 1)
        return [f"w{number}" for number in numbers.choice(300, 12, p=odds / odds.sum())]

    y = np.arange(120) % 4
    tokens, new = [text(label) for label in y], [text(label) for label in y[:60]]
    machine = TextMachine(ngram=1).fit(tokens, y, 4)
    features = machine.spectrum_.transform
    exact = LogisticRegression(C=256.0, max_iter=10_000, tol=1e-9).fit(features(tokens), y)
    np.testing.assert_allclose(machine.probabilities(new), exact.predict_proba(features(new)), atol=1e-3)


def test_classes_without_weight_give_no_folds() -> None:
    """Two classes of ten texts that do not count, and two of one text, which cannot be left out."""
    y = np.array([0] * 10 + [1] * 10 + [2, 3])
    machine = TextMachine(min_count=1).fit([[f"w{number}"] for number in range(22)], y, 4, [0, 0, 1, 1])
    assert machine.errors_ == {}
    assert machine.penalty_ == PENALTIES[2]


def test_the_penalty_is_that_of_the_least_error_on_texts_left_out() -> None:
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(60) < 0.3, rng.integers(0, 3, 60), Y)
    machine = TextMachine().fit(TOKENS, noisy, 3)
    tried = [*machine.errors_]
    assert tried == [*PENALTIES[: len(tried)]]
    assert machine.errors_[machine.penalty_] == min(machine.errors_.values())
    assert machine.penalty_ == tried[-2]  # the next one was worse
    left = np.empty((60, 3))
    for fold in _folds(TOKENS, noisy, np.ones(60)):  # what the other thirds say of each text
        rest = np.setdiff1d(np.arange(60), fold)
        spectrum = Spectrum().fit(TOKENS)
        x = spectrum.transform(TOKENS)
        model = LogisticRegression(C=machine.penalty_ * 60 / len(rest), max_iter=1000).fit(
            x[rest], noisy[rest]
        )
        left[fold] = model.predict_proba(x[fold])
    assert_allclose(machine.errors_[machine.penalty_], -np.log(left[np.arange(60), noisy]).mean(), rtol=1e-3)
    assert machine.accuracy_ == (left.argmax(1) == noisy).mean()


def test_two_classes_are_the_log_odds_of_the_second() -> None:
    y = (Y == 1).astype(int)
    machine = TextMachine().fit(TOKENS, y, 2)
    x = machine.spectrum_.transform(TOKENS)
    same = LogisticRegression(C=machine.penalty_, tol=1e-10, max_iter=1000).fit(x, y)
    assert_allclose(machine.probabilities(TOKENS), same.predict_proba(x), atol=1e-5)


def test_a_class_without_a_text_is_never_predicted() -> None:
    machine = TextMachine().fit(TOKENS, 2 * Y, 6)
    probability = machine.probabilities(TOKENS)
    assert_array_equal(probability[:, [1, 3, 5]], 0)
    assert_allclose(probability.sum(1), 1, rtol=1e-6)
    assert machine.accuracy_ == 1


def test_too_few_texts_to_leave_any_out() -> None:
    machine = TextMachine(min_count=1).fit(TOKENS[:2], Y[:2], 3)
    assert machine.errors_ == {}
    assert machine.accuracy_ is None
    assert (machine.probabilities(TOKENS[:2]).argmax(1) == Y[:2]).all()


def test_weights_of_classes() -> None:
    few = np.arange(60) < 45
    tokens, y = [TOKENS[i] for i in np.flatnonzero(few | (Y == 0))], Y[few | (Y == 0)]
    heavy = TextMachine().fit(tokens, y, 3, [1.0, 9.0, 1.0]).probabilities(NEW[2:])
    assert (heavy[:, 1] > TextMachine().fit(tokens, y, 3).probabilities(NEW[2:])[:, 1]).all()
    balanced = TextMachine().fit(tokens, y, 3, "balanced")
    counts = np.bincount(y)
    by_hand = TextMachine().fit(tokens, y, 3, (len(y) / (3 * counts)).tolist())
    assert_allclose(balanced.probabilities(NEW), by_hand.probabilities(NEW), rtol=1e-4)


def test_the_runs_that_speak_for_a_class(fitted: TextMachine) -> None:
    for name, runs in zip(NAMES, fitted.strongest(4), strict=True):
        assert {word for run in runs for word in run.split()} <= {*WORDS[name]}


def test_saved_and_loaded(fitted: TextMachine, tmp_path: Path) -> None:
    save_text_machine(tmp_path, fitted)
    assert is_text_machine(tmp_path)
    again = load_text_machine(tmp_path)
    assert_array_equal(again.probabilities(NEW), fitted.probabilities(NEW))
    assert text_digest(again) == text_digest(fitted)
    for name in ("errors_", "accuracy_", "penalty_", "about"):
        assert getattr(again, name) == getattr(fitted, name)
    other = TextMachine().fit(TOKENS[:30], Y[:30], 3)
    other.about = fitted.about
    assert text_digest(other) != text_digest(fitted)
    assert "confidential" in (tmp_path / "README").read_text()


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("runs.json", "runs.json is not what was written there"),
        ("model.safetensors", "model.safetensors"),
        ("config.json", "not what was written there"),
    ],
)
def test_damaged_files(file: str, message: str, fitted: TextMachine, tmp_path: Path) -> None:
    save_text_machine(tmp_path, fitted)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content.replace(b"a", b"b", 1))
    with pytest.raises(ValueError, match=message):
        load_text_machine(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FileNotFoundError, match=file):
        load_text_machine(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "0"}, "expected format wlkernelnn.texts/1, got '0'"),
        ({"level": "lines"}, "level must be one of words, characters"),
        ({"level": "characters"}, "idf, weights and intercept must be"),
        ({"about": {"classes": ["a"]}}, "idf, weights and intercept must be"),
        (
            {"about": {"classes": NAMES, "level": "characters"}},
            "about.level: expected 'words', got 'characters'",
        ),
        (
            {"about": {"classes": NAMES, "level": "words", "task": "language"}},
            "about.task: expected 'classif",
        ),
        ({"about": {"classes": NAMES}}, "KeyError: 'level'"),
    ],
)
def test_files_that_do_not_go_together(
    change: dict[str, Any], message: str, fitted: TextMachine, tmp_path: Path
) -> None:
    save_text_machine(tmp_path, fitted)
    edit(tmp_path / "config.json", change)
    with pytest.raises(ValueError, match=message):
        load_text_machine(tmp_path)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"level": "lines"}, Y, "level must be one of words, characters"),
        ({"ngram": 0}, Y, "ngram must be an integer of at least 1"),
        ({"min_count": 99}, Y, "min_count=99: no token is in so many of 60 texts"),
        ({}, 0 * Y, "expected training texts of two classes, all 60 are of one"),
    ],
)
def test_refused(options: dict[str, Any], y: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextMachine(**options).fit(TOKENS, y, 3)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "class_weight has 2 weights, expected one of each of 3 classes"),
        ([1.0, 2.0, -1.0], 'class_weight must be None, "balanced" or numbers of at least 0'),
        ([1.0, 2.0, np.nan], "numbers of at least 0"),
        ([0.0, 2.0, 0.0], "numbers of at least 0, two above"),
        ({0: 1.0, 1: 1.0, 2: 1.0}, "numbers of at least 0"),
        ("equal", "numbers of at least 0"),
    ],
)
def test_weights_that_are_refused(weights: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TextMachine().fit(TOKENS, Y, 3, weights)


def test_what_is_no_list_of_tokens(fitted: TextMachine) -> None:
    with pytest.raises(TypeError, match="text 1: expected a list of tokens, got the text 'rain'"):
        fitted.probabilities([["rain"], "rain"])
    with pytest.raises(TypeError, match="text 0: expected a list of tokens"):
        TextMachine().fit(WRITTEN, Y, 3)
    with pytest.raises(ValueError, match=r"y must be integers \[60\], got float64 \[60\]"):
        TextMachine().fit(TOKENS, Y / 2, 3)
    with pytest.raises(ValueError, match="y must be from 0 to 1, got 0 … 2"):
        TextMachine().fit(TOKENS, Y, 2)
    with pytest.raises(ValueError, match="no token is in so many of 60 texts"):
        TextMachine().fit(60 * [[]], Y, 3)


def test_the_penalty_counts_classes_as_the_weights_do() -> None:
    """Few texts of a class that words tell badly: balanced, they count as much as all others."""
    rng = np.random.default_rng(0)
    words = [*"abcdefghij"]
    y = (np.arange(330) % 11 == 0).astype(int)
    tokens = [[*rng.choice(words[3 * k :], 6)] for k in y]
    machine = TextMachine().fit(tokens, y, 2, "balanced")
    x, order, left = Spectrum().fit(tokens).transform(tokens), np.argsort(y, kind="stable"), np.empty(330)
    for k in range(3):
        fold = order[k::3]
        rest = np.setdiff1d(np.arange(330), fold)
        weight = dict(enumerate(len(rest) / (2 * np.bincount(y[rest]))))
        model = LogisticRegression(C=0.25 * 330 / len(rest), class_weight=weight, max_iter=1000)
        probability = model.fit(x[rest], y[rest]).predict_proba(x[fold])
        left[fold] = -np.log(probability[np.arange(len(fold)), y[fold]])
    assert_allclose(machine.errors_[0.25], (left[y == 0].mean() + left[y == 1].mean()) / 2, rtol=1e-3)


def test_a_class_that_is_left_out_whole_does_not_count() -> None:
    machine = TextMachine().fit([*TOKENS, ["lonely"]], np.array([*Y, 3]), 4)
    assert machine.errors_[machine.penalty_] < 1
    assert machine.strongest(3)[3] == []  # its word is in one text alone
    assert TextMachine(min_count=1).fit([*TOKENS, ["lonely"]], np.array([*Y, 4]), 5).strongest(9)[3] == []


def test_a_pickle_is_without_what_is_made_anew(fitted: TextMachine) -> None:
    again = pickle.loads(pickle.dumps(fitted))
    assert again.spectrum_._known is None
    assert_array_equal(again.probabilities(NEW), fitted.probabilities(NEW))


def test_odd_tokens() -> None:
    """A blank inside a token makes it the run of two, and texts may be empty."""
    spectrum = Spectrum(min_count=1)
    features = spectrum.fit_transform([["a b"], [], ["a", "b"], [""]])
    assert spectrum.runs_["words"] == ["", "a", "a b", "b"]
    assert_array_equal(features[[1]].toarray(), 0)
    assert_array_equal(
        features.toarray()[[0, 2], :4] > 0, [[False, False, True, False], [False, True, True, True]]
    )
    assert_allclose(spectrum.transform([[], ["a", "b"]]).toarray(), features[[1, 2]].toarray(), atol=1e-15)
    with pytest.raises(TypeError, match="expected str instance, int found"):
        spectrum.fit([["a", 1]])


def test_probabilities_are_a_softmax(fitted: TextMachine) -> None:
    logits = fitted.spectrum_.transform(NEW) @ fitted.weights_ + fitted.intercept_
    assert_allclose(fitted.probabilities(NEW), softmax(logits, 1), rtol=1e-6)


def test_a_machine_without_names_is_saved_and_loaded(tmp_path: Path) -> None:
    machine = TextMachine().fit(TOKENS, Y, 3)
    save_text_machine(tmp_path, machine)
    again = load_text_machine(tmp_path)
    assert_array_equal(again.probabilities(NEW), machine.probabilities(NEW))
    assert again.about == machine.about
    assert again.about["classes"] == ["0", "1", "2"]
    with pytest.raises(NotFittedError, match="this TextMachine has not been fitted"):
        save_text_machine(tmp_path, TextMachine())


def test_equal_texts_are_in_one_third() -> None:
    tokens = [f"word{i % 8} other{i % 8}".split() for i in range(24)]
    y = np.arange(24) % 8 % 2
    folds = _folds(tokens, y, np.ones(24))
    assert np.sort(np.concatenate(folds)).tolist() == list(range(24))
    for fold in folds:
        assert {" ".join(tokens[i]) for i in fold}.isdisjoint(
            " ".join(tokens[i]) for i in np.setdiff1d(np.arange(24), fold)
        )
    assert not _folds(tokens[:2] * 5, y[:2].repeat(5), np.ones(10))
