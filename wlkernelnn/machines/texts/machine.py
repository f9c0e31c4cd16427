"""Texts told apart by the runs of words and of characters that they share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.utils.class_weight import compute_sample_weight

from wlkernelnn.datasets.text.texts import Level

from .spectrum import Spectrum, Tokens

logger = logging.getLogger("wlkernelnn")

#: Inverse strengths of the penalty: folds of the training texts choose one, which is else the third.
PENALTIES = (0.25, 1.0, 4.0, 16.0, 64.0, 256.0)
FOLDS = 3
# The largest derivative at the end. With scikit-learn's 1e-4 weak penalties end far from their optimum, and
# look better or worse than they are.
TOLERANCE = 1e-6


class TextMachine:
    r"""Tells classes of texts apart by logistic regression on a sum of two spectrum kernels.

    .. math::
        K(s, t) = \langle\phi_w(s), \phi_w(t)\rangle + \langle\phi_c(s), \phi_c(t)\rangle, \qquad
        \phi(s)_r \propto \Big(1 + \log \#_r(s)\Big) \Big(1 + \log\frac{1 + N}{1 + N_r}\Big)

    r are runs of 1 to ``ngram`` words (w), and of 1 to 5 characters within a word and its two blanks (c), as
    Leslie et al. (2002) count them. :math:`\#_r(s)` is how often r occurs in s, :math:`N_r` the number of the
    N training texts that have it. Both features have length 1. Of characters as tokens there is the second
    part alone, with blanks and signs as they stand.

    The strength of the penalty is chosen by the log loss (with the weights of classes) on thirds of the
    training texts, each predicted by the weights that the others gave: it is lowered until that rises. A
    text is not scored if the other two thirds have no text of its class. Equal texts are in one third.
    Nothing is drawn.

    Args:
        level: Tokens are ``"words"`` or ``"characters"``.
        ngram: Length of the longest run of words.
        min_count: Runs that fewer training texts have are left out.

    Attributes:
        about: As of :class:`~wlkernelnn.training.StringEnsemble`; classes are called by their numbers, unless
            they were named before.
        spectrum_: The runs, and what they count.
        weights_, intercept_: ``[R, C]``, ``[C]``; a class without a training text has the intercept −∞.
        errors_: The log loss on texts left out, for each inverse strength that was tried; empty where there
            were too few texts.
        penalty_: The one that was chosen.
        accuracy_: The accuracy on texts left out, with that, so a little optimistic; ``None`` where there
            were too few.

    Raises:
        ValueError: An argument is out of its range.
    """

    weights_: np.ndarray
    intercept_: np.ndarray
    errors_: dict[float, float]
    penalty_: float
    accuracy_: float | None

    def __init__(self, level: Level = "words", ngram: int = 2, min_count: int = 2) -> None:
        self.spectrum_ = Spectrum(level, ngram, min_count)
        self.about: dict[str, Any] = {}

    def fit(
        self,
        tokens: Tokens,
        y: np.ndarray,
        num_classes: int,
        class_weight: Literal["balanced"] | Sequence[float] | None = None,
    ) -> Self:
        """Fit the weights.

        Args:
            tokens: Of each text ``[n]``.
            y: The class of each, integers from 0 ``[n]``.
            num_classes: Their number; some may have no text.
            class_weight: How much texts of a class count: ``"balanced"``, so that all classes count alike, or
                a number for each.

        Raises:
            TypeError: A text is not a list of tokens.
            ValueError: y are no integers ``[n]`` below ``num_classes``, all texts are of one class, no run
                occurs often enough, or weights are not numbers of at least 0, as many as classes.
        """
        y = np.asarray(y)
        if y.shape != (len(tokens),) or not np.issubdtype(y.dtype, np.integer):
            raise ValueError(f"y must be integers [{len(tokens)}], got {y.dtype} {list(y.shape)}")
        if len(y) and not 0 <= y.min() <= y.max() < num_classes:
            raise ValueError(f"y must be from 0 to {num_classes - 1}, got {y.min()} … {y.max()}")
        if len(np.unique(y)) < 2:
            raise ValueError(f"expected training texts of two classes, all {len(y):,} are of one")
        weights = _weights(class_weight, num_classes)
        counted = compute_sample_weight(weights, y)
        x, folds = self.spectrum_.fit_transform(tokens), _folds(tokens, y, counted)
        rests = [np.setdiff1d(np.arange(len(y)), fold) for fold in folds]
        machines = [_machine(y[rest], weights) for rest in rests]
        self.penalty_ = PENALTIES[2]
        self.errors_ = {}
        self.accuracy_ = None
        for penalty in PENALTIES if folds else ():
            left_out = np.empty((len(y), num_classes))
            for fold, rest, machine in zip(folds, rests, machines, strict=True):
                machine.C = penalty * len(y) / len(rest)  # as strong for each text as with all of them
                model = _fit(machine, x[rest], y[rest], num_classes)
                left_out[fold] = softmax(_logits(x[fold], *model), 1)
            own = left_out[np.arange(len(y)), y]
            seen = own > 0  # the others have texts of the class
            error = float(np.average(-np.log(own[seen].clip(1e-15)), weights=counted[seen]))
            logger.info(f"C = {penalty:g}: log loss {error:.4g} on texts left out")
            self.errors_[penalty] = error
            if error > min(self.errors_.values()):
                break  # weaker penalties take longer, and overfit more
            self.penalty_, self.accuracy_ = penalty, float((left_out.argmax(1) == y).mean())
        machine = _machine(y, weights).set_params(C=self.penalty_)
        self.weights_, self.intercept_ = _fit(machine, x, y, num_classes)
        if len(self.about.get("classes", ())) != num_classes:
            self.about = {
                "task": "classification",
                "level": self.spectrum_.level,
                "max_length": None,
                "classes": [str(number) for number in range(num_classes)],
                "target_names": ["class"],
            }
        return self

    def probabilities(self, tokens: Tokens) -> np.ndarray:
        """Probabilities of the classes, float32 ``[n, C]``."""
        if not len(tokens):
            return np.empty((0, len(self.intercept_)), dtype=np.float32)
        found = softmax(_logits(self.spectrum_.transform(tokens), self.weights_, self.intercept_), 1)
        return np.asarray(found.astype(np.float32))

    def num_unknown(self, tokens: Tokens) -> int:
        """How many tokens of some texts the machine has no weight for."""
        known = self.spectrum_.known()[self.spectrum_.level]
        return sum(token not in known for text in tokens for token in text)

    @property
    def num_parameters(self) -> int:
        return self.weights_.size + self.intercept_.size

    def strongest(self, number: int) -> list[list[str]]:
        """The runs that speak most for each class, up to ``number``: of words, where words are the tokens."""
        names = np.array(self.spectrum_.runs_[self.spectrum_.level], dtype=object)
        own = self.weights_[: len(names)] - self.weights_[: len(names)].mean(1, keepdims=True)
        found = []
        for column, intercept in zip(own.T, self.intercept_, strict=True):
            best = np.argsort(-column, kind="stable")[:number]
            found.append(names[best[column[best] > 0]].tolist() if np.isfinite(intercept) else [])
        return found


def _weights(class_weight: Any, num_classes: int) -> Any:
    """Weights of classes as scikit-learn has them."""
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return class_weight
    try:
        weights = np.array([*class_weight], dtype=float)
    except (TypeError, ValueError):
        weights = np.array([np.nan])
    fine = (np.isfinite(weights) & (weights >= 0)).all() and np.count_nonzero(weights) > 1
    if isinstance(class_weight, dict) or not fine:
        raise ValueError(
            f'class_weight must be None, "balanced" or numbers of at least 0, two above, got {class_weight!r}'
        )
    if len(weights) != num_classes:
        raise ValueError(
            f"class_weight has {len(weights)} weights, expected one of each of {num_classes} classes"
        )
    return dict(enumerate(weights.tolist()))


def _folds(tokens: Tokens, y: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
    """Positions of each fold, over which all classes are dealt out; none if they are too small for that.

    Texts that are the same are in one fold. Classes of weight 0 do not count.
    """
    numbers: dict[Any, int] = {}
    text = np.array([numbers.setdefault(tuple(one), len(numbers)) for one in tokens])
    first = np.unique(text, return_index=True)[1]
    if np.sort(np.bincount(y[first[weights[first] > 0]], minlength=2))[-2] < 2:
        return []
    order = first[np.argsort(y[first], kind="stable")]
    return [np.flatnonzero(np.isin(text, text[order[k::FOLDS]])) for k in range(FOLDS)]


def _machine(y: np.ndarray, class_weight: Any) -> LogisticRegression:
    """Logistic regression on the classes of some texts; fitted again, it starts from the weights it has."""
    if isinstance(class_weight, dict):
        class_weight = {name: class_weight[name] for name in np.unique(y).tolist()}
    return LogisticRegression(
        class_weight=class_weight, solver="newton-cg", tol=TOLERANCE, max_iter=1000, warm_start=True
    )


def _fit(
    machine: LogisticRegression, x: sparse.csr_array, y: np.ndarray, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``[R, C]`` and intercepts ``[C]``."""
    machine.fit(x, y)
    weights, intercept, present = machine.coef_.T, machine.intercept_, machine.classes_
    if len(present) == 2:  # the log-odds of the second
        weights, intercept = np.hstack([-weights, weights]) / 2, np.array([-1, 1]) * intercept / 2
    every = np.zeros((x.shape[1], num_classes)), np.full(num_classes, -np.inf)
    every[0][:, present], every[1][present] = weights, intercept
    return every


def _logits(x: sparse.csr_array, weights: np.ndarray, intercept: np.ndarray) -> np.ndarray:
    return np.asarray(x @ weights + intercept)
