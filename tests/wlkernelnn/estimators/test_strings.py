from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedShuffleSplit

from tests.inputs.edited import edit
from tests.inputs.texts import WORDS, texts
from tests.wlkernelnn.estimators.test_molecules import CHECKS
from wlkernelnn import MoleculeClassifier, StringClassifier, TextClassifier
from wlkernelnn.cli.main import main
from wlkernelnn.sequence import Bidirectional
from wlkernelnn.training import load_checkpoint

SMALL: dict[str, Any] = {"hidden_channels": 8, "epochs": 2, "lr": 0.05, "batch_size": 16, "random_state": 3}
TEXTS, LABELS = texts(60)
RNG = np.random.default_rng(0)
SIGNALS = [
    np.stack([np.arange(n) * (1 if i % 2 else -1.0), RNG.normal(size=n)], 1)
    for i, n in enumerate(range(5, 45))
]
SIGNS = np.array([1, 2])[np.arange(40) % 2]
CASES: dict[str, tuple[Any, Any, Any]] = {
    "texts": (TextClassifier("kernel", **SMALL, min_count=1), TEXTS, LABELS),
    "signals": (StringClassifier(**SMALL | {"epochs": 5, "lr": 0.1}), SIGNALS, SIGNS),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    return {name: clone(model).fit(X, y) for name, (model, X, y) in CASES.items()}


@pytest.mark.parametrize("case", CASES)
def test_it_learns(case: str, fitted: dict[str, Any]) -> None:
    model, (_, X, y) = fitted[case], CASES[case]
    probability = model.predict_proba(X)
    assert model.score(X, y) > 0.95
    assert model.validation_score_ > 0.5
    assert_allclose(probability.sum(1), 1, rtol=1e-5)
    assert model.classes_.tolist() == sorted(set(y))
    assert_array_equal(model.predict(X), model.classes_[probability.argmax(1)])


def test_a_few_texts_are_enough_for_the_order_of_words() -> None:
    """The score of twelve validation texts stands still at first: no reason to stop."""
    good, bad = ["good", "fun", "lovely", "clever", "fresh"], ["bad", "dull", "boring", "silly", "stale"]
    rows = [
        (f"the film was {' and '.join(pair)}", label, i == j)
        for i, a in enumerate(good)
        for j, b in enumerate(bad)
        for label, first, second in (("good", a, f"not {b}"), ("bad", f"not {a}", b))
        for pair in ((first, second), (second, first))
    ]
    train, test = ([row[:2] for row in rows if row[2] == apart] for apart in (False, True))
    model = TextClassifier("kernel", hidden_channels=32, embedding_channels=16, lr=0.02, random_state=0)
    assert model.fit(*zip(*train, strict=True)).score(*zip(*test, strict=True)) > 0.9


@pytest.mark.parametrize("case", CASES)
def test_seeds(case: str, fitted: dict[str, Any]) -> None:
    model, X, y = CASES[case]
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    again = clone(model).fit(X, y)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert_array_equal(again.predict_proba(X), fitted[case].predict_proba(X))
    other = clone(model).set_params(random_state=4).fit(X, y)
    assert not np.array_equal(other.predict_proba(X), fitted[case].predict_proba(X))


def test_weights_of_classes(tmp_path: Path) -> None:
    """Numbers for classes, which the networks have in the order of their names as texts."""
    quick = {**SMALL, "epochs": 1, "validation_fraction": 0}
    few, classes = SIGNALS[:17], np.array([9, 10])[np.arange(17) % 2]  # "10" before "9"
    with pytest.raises(ValueError, match="patience=1 needs valid"):
        StringClassifier(**quick, patience=1).fit(few, classes)
    weighted = StringClassifier(**quick, class_weight={10: 5.0}).fit(few, classes)
    by_options = StringClassifier(**quick, fit_options={"class_weight": [5.0, 1.0]}).fit(few, classes)
    probability = weighted.predict_proba(few)
    assert_array_equal(probability, by_options.predict_proba(few))
    plain = StringClassifier(**quick).fit(few, classes).predict_proba(few)
    assert probability[:, 1].mean() > plain[:, 1].mean()
    weighted.save(tmp_path)
    assert StringClassifier.load(tmp_path).class_weight == {10: 5.0}
    balance = StringClassifier(**quick, fit_options={"balance": True}).fit(few, classes)
    balanced = StringClassifier(**quick, class_weight="balanced").fit(few, classes)
    assert_array_equal(balanced.predict_proba(few), balance.predict_proba(few))
    assert not np.array_equal(balanced.predict_proba(few), plain)


@pytest.mark.parametrize("case", CASES)
def test_saved_and_loaded(case: str, fitted: dict[str, Any], tmp_path: Path) -> None:
    model, (_, X, _) = fitted[case], CASES[case]
    model.save(tmp_path / "run")
    again = type(model).load(tmp_path / "run")
    assert again.get_params() == model.get_params()
    assert_array_equal(again.classes_, model.classes_)
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.validation_score_ == model.validation_score_
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    with pytest.raises(FileExistsError, match="holds a run already"):
        model.save(tmp_path / "run")
    other = StringClassifier if case == "texts" else TextClassifier
    with pytest.raises(ValueError, match="got one of " + case):
        other.load(tmp_path / "run")


def test_a_saved_folder_predicts_on_the_command_line(fitted: dict[str, Any], tmp_path: Path) -> None:
    fitted["texts"].save(tmp_path / "run")
    pd.DataFrame({"text": TEXTS}).to_csv(tmp_path / "in.csv", index=False)
    words = {"test": tmp_path / "in.csv", "model": tmp_path / "run", "preds": tmp_path / "out.csv"}
    assert main(["text", "predict", *(f"--{name}-path={path}" for name, path in words.items())]) == 0
    assert pd.read_csv(tmp_path / "out.csv")["label"].tolist() == fitted["texts"].predict(TEXTS).tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["food", "sport"]}, "classes: expected"),
        ({"classes": ["weather", "sport", "food"]}, "sorted, got"),
        ({"networks": 2}, "expected 2 networks, found 1"),
        ({"format": "0"}, "expected format"),
    ],
)
def test_damaged_folders(
    change: dict[str, Any], message: str, fitted: dict[str, Any], tmp_path: Path
) -> None:
    fitted["texts"].save(tmp_path)
    edit(tmp_path / "estimator.json", change)
    with pytest.raises(ValueError, match=message):
        TextClassifier.load(tmp_path)


def test_a_vocabulary_that_is_gone(fitted: dict[str, Any], tmp_path: Path) -> None:
    fitted["texts"].save(tmp_path)
    (tmp_path / "model_0" / "vocabulary.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"vocabulary\.json: no such file"):
        TextClassifier.load(tmp_path)
    model, about = load_checkpoint(tmp_path / "model_0")
    assert model.num_classes == len(about["classes"]) == len(WORDS)


FORMS: dict[str, Any] = {
    "tuple": tuple,
    "array": np.array,
    "Series": lambda items: pd.Series(items, index=range(100, 100 + len(items))),
    "Arrow": pa.array,
    "DataFrame": lambda items: pd.DataFrame({"text": items}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_list(form: str, fitted: dict[str, Any]) -> None:
    assert_array_equal(fitted["texts"].predict(FORMS[form](TEXTS[:9])), fitted["texts"].predict(TEXTS)[:9])


def test_signals_in_one_array(fitted: dict[str, Any]) -> None:
    array = np.stack([signal[:5] for signal in SIGNALS])
    assert_array_equal(fitted["signals"].predict(array), fitted["signals"].predict([*array]))
    flat = [signal[:, 0] for signal in SIGNALS]
    model = clone(CASES["signals"][0]).fit(flat, SIGNS)
    assert model.score([signal[:, None] for signal in flat], SIGNS) > 0.7


def test_scale_does_not_matter(fitted: dict[str, Any]) -> None:
    scaled = [signal * 1e6 + 3e6 for signal in SIGNALS]
    model = clone(CASES["signals"][0]).fit(scaled, SIGNS)
    assert_allclose(model.predict_proba(scaled), fitted["signals"].predict_proba(SIGNALS), atol=1e-3)


def test_a_channel_that_is_constant() -> None:
    """Its deviation is rounding alone, by which nothing may be divided."""
    signals = [np.hstack([signal, np.full((len(signal), 1), 0.1)]) for signal in SIGNALS]
    model = StringClassifier(**SMALL).fit(signals, SIGNS)
    assert model.ensemble_.about["std"][2] == 1.0
    nearly = [signal + np.array([0, 0, 1e-9]) for signal in signals]
    assert_allclose(model.predict_proba(nearly), model.predict_proba(signals), rtol=1e-5)
    with pytest.raises(ValueError, match="X: channel 1: values of up to 1e\\+200 are beyond float32"):
        StringClassifier(**SMALL).fit([np.full((3, 2), [1, 1e200])] * 20, SIGNS[:20])


@pytest.mark.parametrize("labels", [LABELS, [label == LABELS[0] for label in LABELS]], ids=["words", "bools"])
def test_labels_in_an_arrow_column(labels: list[Any]) -> None:
    model = TextClassifier().fit(TEXTS, pa.array(labels))
    assert model.classes_.tolist() == sorted({*labels})
    assert_array_equal(model.predict(TEXTS), TextClassifier().fit(TEXTS, labels).predict(TEXTS))


def test_a_value_far_outside_of_the_training(fitted: dict[str, Any]) -> None:
    signals = [SIGNALS[0], np.array([[0, 0], [0, 1e300]])]
    with pytest.raises(ValueError, match=r"X: string 1, step 1, channel 1: .* are beyond float32"):
        fitted["signals"].predict(signals)


def test_no_signals(fitted: dict[str, Any]) -> None:
    assert fitted["signals"].predict_proba([]).shape == (0, 2)
    assert fitted["signals"].predict([]).shape == (0,)


@pytest.mark.parametrize("labels", [[1, 2, 10], [False, True, False], [-1.0, 0.0, 1.0]], ids=str)
def test_classes_of_any_kind(labels: list[Any]) -> None:
    y = [labels[sorted(WORDS).index(label)] for label in LABELS]
    model = TextClassifier("kernel", **SMALL, min_count=1).fit(TEXTS, y)
    assert model.classes_.tolist() == sorted(set(labels))
    assert model.score(TEXTS, y) > 0.95


def test_options_reach_the_networks() -> None:
    model = TextClassifier(
        "rkm_lstm",
        **SMALL | {"epochs": 1},
        ensemble_size=2,
        num_layers=2,
        bidirectional=True,
        level="characters",
        max_length=8,
        validation_fraction=0,
        fit_options={"l2": 1e-3},
    ).fit(TEXTS[:24], LABELS[:24])
    assert len(model.ensemble_.networks) == 2
    encoder = model.ensemble_.networks[0].encoder
    assert [type(layer) for layer in encoder.layers] == 2 * [Bidirectional]
    assert encoder.out_channels == 2 * SMALL["hidden_channels"]
    assert model.validation_score_ is None
    assert model.ensemble_.about["max_length"] == 8


def test_scikit_learns_tools() -> None:
    texts, labels = TEXTS[:24], LABELS[:24]
    model = TextClassifier("kernel", **SMALL | {"epochs": 1}, min_count=1, validation_fraction=0)
    cv = StratifiedShuffleSplit(1, random_state=0)
    search = GridSearchCV(model, {"hidden_channels": [4, 8]}, cv=cv, error_score="raise").fit(texts, labels)
    assert search.best_params_["hidden_channels"] in (4, 8)
    column = np.array(texts, dtype=object)[:, None]
    bagged = BaggingClassifier(model, n_estimators=2, random_state=0).fit(column, labels)
    assert bagged.predict(column).shape == (24,)


REFUSED: dict[str, tuple[dict[str, Any], Any, Any, str]] = {
    "one class": ({}, TEXTS, ["a"] * 60, "expected two classes or more, got 1"),
    "length": ({}, TEXTS, LABELS[:3], r"y must be \[60\], got \[3\]"),
    "no label": ({}, TEXTS, [None, *LABELS[1:]], "y: data row 1 has no label"),
    "mixed": ({}, TEXTS, [1, *LABELS[1:]], "some classes are strings and some are not"),
    "fractions": ({}, TEXTS, np.arange(60) / 7, "continuous"),
    "half a pair": ({}, ["a \ud83d", *TEXTS[1:]], LABELS, "row 1: .*: half a surrogate pair in it"),
    "empty text": ({}, ["", *TEXTS[1:]], LABELS, r"X: 1 of 60 rows give no text\n  data row 1: '': no text"),
    "no text": ({}, [*TEXTS[:-1], None], LABELS, "data row 60: None: no text"),
    "rare": ({}, TEXTS, ["rare", *LABELS[1:]], "20 / 1 / 19 / 20 of each class.* leaves too few"),
    "model": ({"model": "gpt"}, TEXTS, LABELS, "model must be one of auto, spectrum, kernel"),
    "level": ({"level": "lines"}, TEXTS, LABELS, "level must be one of words, characters"),
    "tokens": ({"max_length": 0}, TEXTS, LABELS, "max_length must be an integer of at least 1"),
    "layers": ({"num_layers": 0}, TEXTS, LABELS, "num_layers must be an integer of at least 1"),
    "lr": ({"lr": 0.0}, TEXTS, LABELS, "lr must be above 0"),
    "members": ({"ensemble_size": 0}, TEXTS, LABELS, "ensemble_size"),
    "weight of no class": (
        {"class_weight": {"x": 2}},
        TEXTS,
        LABELS,
        "class_weight: 'x' is not one of the cl",
    ),
    "weights twice": (
        {"class_weight": "balanced", "fit_options": {"balance": True}},
        TEXTS,
        LABELS,
        "class_weight is set by the argument class_weight",
    ),
    "twice": ({"fit_options": {"lr": 1.0}}, TEXTS, LABELS, "fit_options: lr is set by the argument lr"),
    "option": ({"network_options": {"depth": 1}}, TEXTS, LABELS, "unknown option depth; known are decay"),
    "decay": (
        {"model": "lstm", "network_options": {"decay": 0.3}},
        TEXTS,
        LABELS,
        "network_options: decay is of model='kernel', and the model is 'lstm'",
    ),
    "feedback": (
        {"model": "rkm_lstm", "network_options": {"feedback": True}},
        TEXTS,
        LABELS,
        "network_options: feedback is of model='kernel'",
    ),
    "width of a file": (
        {"embeddings_path": "vectors.txt", "embedding_channels": 50},
        TEXTS,
        LABELS,
        "embedding_channels: the file of embeddings_path has a width of its own",
    ),
    "freeze": ({"freeze_embeddings": True}, TEXTS, LABELS, "freeze_embeddings=True needs embeddings_path"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    options, X, y, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        TextClassifier(**{"model": "kernel"} | SMALL | options).fit(X, y)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("rain", TypeError, "X: expected a list, array, Series or column of texts, got str"),
        ([1, 2], TypeError, "X: data row 1: expected a text, got int"),
        (np.zeros((3, 2)), TypeError, r"got ndarray of shape \[3, 2\]"),
    ],
)
def test_what_is_no_list_of_texts(X: Any, error: Any, message: str, fitted: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        fitted["texts"].predict(X)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (["abc"], TypeError, "X: string 0: expected an array of real numbers, got 'abc'"),
        ([np.array([1 + 2j, 3j])], TypeError, r"X: string 0: expected an array of real numbers, got array\("),
        (
            [np.ma.masked_equal(np.array([[0.0, -9.0]]), -9.0)],
            ValueError,
            r"X: string 0: a masked array hides the value at \[0, 1\]",
        ),
        ([np.zeros((3, 3))], ValueError, "X: string 0 has 3 channels, the training had 2"),
        ([np.zeros((3, 2)), np.zeros((3, 1))], ValueError, "X: string 1 has 1 channels, string 0 has 2"),
        ([np.zeros((0, 2))], ValueError, r"X: string 0: expected shape \[T, d\], T at least 1, got \[0, 2\]"),
        (
            [np.array([[0, 1], [np.nan, 1]])],
            ValueError,
            "string 0, step 1, channel 0: expected a finite number",
        ),
        (7, TypeError, "X: expected a list of arrays"),
    ],
)
def test_what_are_no_signals(X: Any, error: Any, message: str, fitted: dict[str, Any]) -> None:
    with pytest.raises(error, match=message):
        fitted["signals"].predict(X)


@pytest.mark.parametrize("model", [TextClassifier(), StringClassifier()])
def test_not_fitted(model: Any, tmp_path: Path) -> None:
    for call in (lambda: model.predict(TEXTS), lambda: model.save(tmp_path / "run")):
        with pytest.raises(NotFittedError):
            call()
    assert is_classifier(model)


def test_a_folder_of_molecules(tmp_path: Path, classifier: MoleculeClassifier) -> None:
    classifier.save(tmp_path)
    with pytest.raises(ValueError, match="expected a model of texts or signals"):
        TextClassifier.load(tmp_path)


@pytest.mark.parametrize("model", [TextClassifier, StringClassifier])
def test_scikit_learns_own_checks(model: Any) -> None:
    for check in CHECKS:
        check(model.__name__, model())


@pytest.mark.parametrize("number", [59, 61])
@pytest.mark.parametrize("options", [{}, {"model": "kernel", "validation_fraction": 0.0}])
def test_labels_of_a_table_of_another_length(number: int, options: dict[str, Any]) -> None:
    written, labels = texts(60)
    labels = [*labels, "sport"][:number]
    with pytest.raises(ValueError, match=rf"y must be \[60\], got \[{number}\]"):
        TextClassifier(**options).fit(pd.DataFrame({"text": written}), labels)


def test_channels_of_data_frames_keep_their_names(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frames = [pd.DataFrame(rng.normal(size=(6, 2)), columns=["a", "b"]) for _ in range(12)]
    model = StringClassifier(**SMALL | {"epochs": 1}).fit(frames, 6 * ["x", "y"])
    plain = [frame.to_numpy() for frame in frames]
    assert_array_equal(model.predict_proba(frames), model.predict_proba(plain))
    tables = [pa.table({name: frame[name] for name in frame}) for frame in frames]
    assert_array_equal(model.predict_proba(tables), model.predict_proba(plain))
    turned = [frame[["b", "a"]] for frame in frames]
    model.save(tmp_path / "run")
    for fitted in (model, StringClassifier.load(tmp_path / "run")):
        with pytest.raises(
            ValueError, match=r"channels are called \['b', 'a'\], those of the training \['a', 'b'\]"
        ):
            fitted.predict(turned)
        with pytest.raises(ValueError, match=r"channels are called \['b', 'a'\]"):
            fitted.predict([table.select(["b", "a"]) for table in tables])
    with pytest.raises(ValueError, match=r"string 1 has the columns \['b', 'a'\], others have \['a', 'b'\]"):
        model.fit([frames[0], *turned[1:]], 6 * ["x", "y"])


def test_tensors_that_want_gradients() -> None:
    model = StringClassifier(**SMALL | {"epochs": 1}).fit(SIGNALS, SIGNS)
    tensors = [torch.tensor(np.asarray(signal), requires_grad=True) for signal in SIGNALS]
    assert_array_equal(model.predict(tensors), model.predict(SIGNALS))
