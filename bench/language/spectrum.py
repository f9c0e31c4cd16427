"""Machines on spectrum kernels, without networks: how many runs of words two texts share."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC

from wlkernelnn.bench.harness.cells import Cell, Record
from wlkernelnn.datasets import LabelledStrings, PackedStrings
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.kernels.graphs.count_kernel import unary
from wlkernelnn.kernels.graphs.counts import CountSide, count_matrix, count_sides
from wlkernelnn.machines import TextMachine

TITLE = "min-max spectrum kernel, SVC"
OURS = "spectrum machine"
# Penalties: the validation part chooses one.
PENALTIES = (1.0, 10.0)
# Texts compared at once.
BLOCK = 1_000
# Classes whose sizes differ by more than this factor are weighted.
IMBALANCE = 1.2

LEGEND = (
    "* the spectrum kernel counts runs of 1 to n words (Leslie et al. 2002), K(s, t) = Σ min / Σ max of the\n"
    f"  counts over all runs; a support vector machine with C of {' or '.join(f'{C:g}' for C in PENALTIES)}, "
    "by the validation part;\n  one class against another; no word vectors, nothing is drawn\n"
    '* the spectrum machine is what "wlkernelnn text train" fits by default: logistic regression on runs of\n'
    "  1 to n words (2 in a table without n) and of 1 to 5 characters; the validation part is scored only\n"
)


def of_networks(cell: Cell) -> Cell:
    """A cell of rows that have epochs."""
    return lambda runs: cell(runs) if runs[0]["epochs"] else "–"


def spectrum(strings: PackedStrings, ngram: int) -> tuple[np.ndarray, np.ndarray]:
    """All runs of 1 to ``ngram`` tokens: the string of each ``[M]``, and its tokens + 1, 0 behind the end,
    ``[M, ngram]``.
    """
    tokens, ptr = strings.tokens.numpy().astype(np.int64) + 1, strings.ptr.numpy()
    owner = np.repeat(np.arange(len(strings)), np.diff(ptr))
    runs, owners = [], []
    for length in range(1, ngram + 1):
        begin = np.arange(max(len(tokens) - length + 1, 0))
        begin = begin[owner[begin] == owner[begin + length - 1]]
        run = np.zeros((len(begin), ngram), dtype=np.int64)
        run[:, :length] = tokens[begin[:, None] + np.arange(length)]
        runs.append(run)
        owners.append(owner[begin])
    return np.concatenate(owners), np.concatenate(runs)


def minmax(one: CountSide, other: CountSide) -> np.ndarray:
    """Σ min / Σ max of all pairs, float32 ``[n, n']``; 1 of two empty strings."""
    result = np.empty((len(one.squares), len(other.squares)), dtype=np.float32)
    for begin in range(0, len(result), BLOCK):
        some = one.part(begin, begin + BLOCK)
        least = some.product(other)
        most = some.squares[:, None] + other.squares - least
        result[begin : begin + BLOCK] = np.divide(least, most, out=np.ones_like(least), where=most > 0)
    return result


def spectrum_sides(data: LabelledStrings, ngram: int) -> dict[str, CountSide]:
    """The counts of each part."""
    found = [spectrum(getattr(data, part), ngram) for part in PARTS]
    sizes = [len(getattr(data, part)) for part in PARTS]
    first = np.cumsum([0, *sizes])
    owner = np.concatenate([own + begin for (own, _), begin in zip(found, first, strict=False)])
    runs = np.concatenate([run for _, run in found])
    for column in range(1, ngram):  # number the runs of 2, 3, … tokens
        pairs = runs[:, 0] * (runs[:, column].max(initial=0) + 1) + runs[:, column]
        runs[:, 0] = np.unique(pairs, return_inverse=True)[1]
    known, number = np.unique(runs[:, 0], return_inverse=True)
    counts = unary(count_matrix(owner, number, int(first[-1]), len(known)))
    whole, _ = count_sides(counts)
    return {part: whole.part(first[i], first[i + 1]) for i, part in enumerate(PARTS)}


def spectrum_machine(data: LabelledStrings, ngrams: Sequence[int], says: Record, known: Record) -> Record:
    """The record of a machine whose n and C have the best accuracy on the validation part.

    Args:
        data: The strings.
        ngrams: Values of n.
        says, known: More for the record: of the row, and of the call.
    """
    start = time.perf_counter()
    y = {part: getattr(data, part).y.numpy() for part in PARTS}
    best: tuple[float, int, Any] = (-1.0, 0, None)
    for ngram in ngrams:
        sides = spectrum_sides(data, ngram)
        gram = minmax(sides["train"], sides["train"]).astype(np.float64)
        valid = minmax(sides["valid"], sides["train"])
        for penalty in PENALTIES:
            machine = SVC(kernel="precomputed", C=penalty, class_weight="balanced", cache_size=500)
            machine.fit(gram, y["train"])
            score = float(accuracy_score(y["valid"], machine.predict(valid)))
            best = max(best, (score, ngram, machine), key=lambda found: found[0])
        del gram
    score, ngram, machine = best
    sides = spectrum_sides(data, ngram)
    test = float(accuracy_score(y["test"], machine.predict(minmax(sides["test"], sides["train"]))))
    size, seconds = machine.dual_coef_.size, time.perf_counter() - start
    return _record(size, ngram, machine.C, (score, test), seconds) | says | known


def words_of(data: LabelledStrings, strings: PackedStrings) -> list[list[str]]:
    """The words of each string."""
    names = data.vocabulary.tokens
    words, ptr = [names[i] for i in strings.tokens.tolist()], strings.ptr.tolist()
    return [words[begin:end] for begin, end in itertools.pairwise(ptr)]


def text_machine(data: LabelledStrings, ngram: int, says: Record, known: Record) -> Record:
    """The record of our default machine of texts; all classes count alike where their sizes differ.

    Args:
        data: The strings, of words.
        ngram: Length of the longest run of words.
        says, known: More for the record: of the row, and of the call.
    """
    start = time.perf_counter()
    y = {part: getattr(data, part).y.numpy() for part in PARTS}
    tokens = {part: words_of(data, getattr(data, part)) for part in PARTS}
    counts = np.bincount(y["train"])
    weight: Literal["balanced"] | None = "balanced" if counts.max() > IMBALANCE * counts.min() else None
    machine = TextMachine(ngram=ngram).fit(tokens["train"], y["train"], len(data.classes), weight)
    valid, test = (
        float(accuracy_score(y[part], machine.probabilities(tokens[part]).argmax(1))) for part in PARTS[1:]
    )
    size, seconds = machine.num_parameters, time.perf_counter() - start
    return _record(size, ngram, machine.penalty_, (valid, test), seconds) | says | known


def _record(
    parameters: int, ngram: int, penalty: float, accuracies: tuple[float, float], seconds: float
) -> Record:
    valid, test = accuracies
    return {
        "seed": 0,
        **dict.fromkeys(("parameters", "weights"), parameters),
        "runs_of": ngram,
        "penalty": penalty,
        "recipe": {"epochs": 0},
        "epochs": 0,
        "stopped": True,
        "valid_accuracy": valid,
        "test_accuracy": test,
        "seconds": seconds,
    }
