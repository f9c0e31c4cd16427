"""Speed of the machine of texts beside scikit-learn's pipeline of the same features and model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import accuracy_score
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race, Ratio, raced
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import load_documents
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.texts.machine import FOLDS, PENALTIES, TOLERANCE
from wlkernelnn.machines.texts.spectrum import CHARACTERS, Spectrum, Tokens

from .spectrum import words_of

NGRAM, MIN_COUNT = 2, 2
GOAL = 1.3
QUICK_TEXTS = 100

LEGEND = f"""Texts per second, from tokens to weights (fit) and to probabilities (predict), on one thread.

* Both count runs of 1 to {NGRAM} words and of 1 to {CHARACTERS} characters, and weight them alike. Nothing is
  timed before features have been found equal. Both choose one of {len(PENALTIES)} penalties by the log loss
  on {FOLDS} parts of the training texts. Ours stops once it rises, and has equal texts in one part.
* scikit-learn: two `TfidfVectorizer` side by side and `LogisticRegressionCV`, which starts from the weights
  of the penalty before, as ours does. Its default solver is lbfgs with a tolerance of 1e-4; newton-cg with
  {TOLERANCE:g} is what ours is solved by. It splits texts into words at blanks; ours is given words.
"""

SOLVERS: dict[str, dict[str, Any]] = {
    "scikit-learn": {},
    "scikit-learn, newton-cg": {"solver": "newton-cg", "tol": TOLERANCE},
}


@dataclass
class TextSpeedOptions(TableOptions):
    """What is measured, and where results go.

    Args:
        quick: Few texts and rounds: only to see that everything works.
        dataset: A published set of documents.
        texts: Numbers of training texts.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        rounds: Turns that count.
    """

    dataset: str = "ag_news"
    texts: list[PositiveInt] = field(default_factory=lambda: [1000, 4000])
    root: str | None = None
    rounds: PositiveInt = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quick:
            self.texts, self.rounds = [QUICK_TEXTS], 1


def pipeline(**solver: Any) -> Pipeline:
    """The machine of texts, as scikit-learn has it; texts are words between blanks."""
    words: dict[str, Any] = {"token_pattern": r"\S+", "ngram_range": (1, NGRAM)}
    characters: dict[str, Any] = {"analyzer": "char_wb", "ngram_range": (1, CHARACTERS)}
    vectorizers = [
        (name, TfidfVectorizer(lowercase=False, sublinear_tf=True, min_df=MIN_COUNT, **runs))
        for name, runs in (("words", words), ("characters", characters))
    ]
    model = LogisticRegressionCV(Cs=PENALTIES, cv=FOLDS, scoring="neg_log_loss", max_iter=1000, **solver)
    return make_pipeline(FeatureUnion(vectorizers), model)


def fit(tokens: Tokens, y: np.ndarray, num_classes: int) -> TextMachine:
    with threadpool_limits(1):
        return TextMachine(ngram=NGRAM, min_count=MIN_COUNT).fit(tokens, y, num_classes)


def fit_pipeline(texts: Sequence[str], y: np.ndarray, solver: str) -> Pipeline:
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # of defaults that will be others
        return pipeline(**SOLVERS[solver]).fit(texts, y)


def joined(tokens: Tokens) -> list[str]:
    return [" ".join(words) for words in tokens]


def check_features(tokens: Tokens) -> None:
    """A RuntimeError if both do not have the same features of some training texts."""
    ours = Spectrum(ngram=NGRAM, min_count=MIN_COUNT).fit_transform(tokens)
    theirs = pipeline()[0].fit_transform(joined(tokens))
    if ours.shape != theirs.shape or abs(ours - theirs).max() > 1e-12:
        raise RuntimeError(f"our features {ours.shape} are not scikit-learn's {theirs.shape}, not comparable")


def measure(options: TextSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    race = partial(raced, rounds=options.rounds, min_seconds=0.02)
    data = load_documents(options.dataset, options.root)
    new, y_new = words_of(data, data.test), data.test.y.numpy()
    if options.quick:
        new, y_new = new[:QUICK_TEXTS], y_new[:QUICK_TEXTS]
    known |= {"dataset": options.dataset, "rounds": options.rounds}
    order = np.random.default_rng(0).permutation(len(data.train))
    sizes = sorted({min(size, len(order)) for size in options.texts})
    for size in sizes:
        some = data.train.select(order[:size])
        tokens, y = words_of(data, some), some.y.numpy()
        check_features(tokens)
        ours, texts = partial(fit, tokens, y, len(data.classes)), joined(tokens)
        machine = ours()
        say(known, f"{size:,} texts, ours", machine.penalty_, machine.probabilities(new).argmax(1), y_new)
        for solver in SOLVERS:
            theirs = partial(fit_pipeline, texts, y, solver)
            yield race(f"fit, {size:,} texts", solver, ours, theirs, size)
            fitted = theirs()
            penalty = float(np.ravel(fitted[-1].C_)[0])
            say(known, f"{size:,} texts, {solver}", penalty, fitted.predict(joined(new)), y_new)
    with threadpool_limits(1):
        both = partial(machine.probabilities, new), partial(fitted.predict_proba, joined(new))
        yield race(f"predict, {len(new):,} texts", "scikit-learn", *both, len(new), GOAL)


def say(known: Known, whose: str, penalty: float, predicted: np.ndarray, y: np.ndarray) -> None:
    known[whose] = f"C = {penalty:g}, test accuracy {100 * accuracy_score(y, predicted):.1f} %"


TITLE, PACKAGES = "Speed of the machine of texts", ("scipy", "scikit-learn")
main = Race("text-speed", __doc__, TextSpeedOptions, TITLE, LEGEND, measure, PACKAGES).main
