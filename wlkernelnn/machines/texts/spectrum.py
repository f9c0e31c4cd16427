"""Texts by the runs of words and of characters in them: features of spectrum kernels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.preprocessing import normalize

from wlkernelnn.datasets.text.texts import LEVELS
from wlkernelnn.utils.checks import check_count, check_one_of

#: The longest run of characters.
CHARACTERS = 5
#: Tokens of each text; words hold no blanks.
Tokens = Sequence[Sequence[str]]


class Spectrum:
    r"""The features of a sum of two spectrum kernels (Leslie et al. 2002).

    .. math::
        \phi(s)_r \propto \Big(1 + \log \#_r(s)\Big) \Big(1 + \log\frac{1 + N}{1 + N_r}\Big)

    r are runs of 1 to ``ngram`` words, and of 1 to 5 characters within a word and its two blanks; of
    characters as tokens, runs of 1 to 5 of them. :math:`\#_r(s)` is how often r occurs in s, :math:`N_r` the
    number of the N training texts that have it. The features of words have length 1, and so have those of
    characters.

    Args:
        level: Tokens are ``"words"`` or ``"characters"``.
        ngram: Length of the longest run of words.
        min_count: Runs that fewer training texts have are left out.

    Attributes:
        runs_: The runs of each part, in the order of the features.
        idf_: :math:`1 + \log\frac{1 + N}{1 + N_r}`, ``[R]``.

    Raises:
        ValueError: An argument is out of its range.
    """

    runs_: dict[str, list[str]]
    idf_: np.ndarray
    _known: dict[str, dict[str, int]] | None = None

    def __init__(self, level: str = "words", ngram: int = 2, min_count: int = 2) -> None:
        check_one_of("level", level, LEVELS)
        self.level = level
        self.ngram = check_count("ngram", ngram)
        self.min_count = check_count("min_count", min_count)

    @property
    def num_tokens(self) -> int:
        """Tokens that are runs."""
        if self.level == "characters":
            return sum(len(run) == 1 for run in self.runs_["characters"])
        return sum(" " not in run for run in self.runs_["words"])

    def fit(self, tokens: Tokens) -> Self:
        """Learn the runs of training texts.

        Raises:
            TypeError: A text is not a list of tokens.
            ValueError: No run is in so many texts.
        """
        self.fit_transform(tokens)
        return self

    def fit_transform(self, tokens: Tokens) -> sparse.csr_array:
        """Learn the runs of training texts, and give their features, float64 ``[n, R]``.

        Raises:
            TypeError: A text is not a list of tokens.
            ValueError: No run is in so many texts.
        """
        _check_tokens(tokens)
        few = f"min_count={self.min_count}: no token is in so many of {len(tokens):,} texts"
        if not any(tokens):
            raise ValueError(few)
        self.runs_, self._known, idfs, found = {}, None, [], []
        for part, counts, runs in self._counts(tokens):
            every = sorted({*runs})
            counts = counts @ _places(runs, {run: i for i, run in enumerate(every)})
            texts = np.bincount(counts.indices, minlength=len(every))
            kept = np.flatnonzero(texts >= self.min_count)
            self.runs_[part] = [every[i] for i in kept]
            idfs.append(1 + np.log((1 + len(tokens)) / (1 + texts[kept])))
            if len(kept):
                found.append(_features(counts[:, kept], idfs[-1]))
        self.idf_ = np.concatenate(idfs)
        if not found:
            raise ValueError(few)
        return sparse.csr_array(sparse.hstack(found, format="csr"))

    def transform(self, tokens: Tokens) -> sparse.csr_array:
        """The features of texts, float64 ``[n, R]``.

        Raises:
            TypeError: A text is not a list of tokens.
        """
        _check_tokens(tokens)
        found, begin, known = [], 0, self.known()
        for part, counts, runs in self._counts(tokens):
            if places := known[part]:
                idf = self.idf_[begin : begin + len(places)]
                found.append(_features(counts @ _places(runs, places), idf))
                begin += len(places)
        return sparse.csr_array(sparse.hstack(found, format="csr"))

    def known(self) -> dict[str, dict[str, int]]:
        """The place of each run in its part."""
        if self._known is None:
            self._known = {part: {run: i for i, run in enumerate(runs)} for part, runs in self.runs_.items()}
        return self._known

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_known": None}  # made anew

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the kernel."""
        return ("words", "characters") if self.level == "words" else ("characters",)

    def _counts(self, tokens: Tokens) -> Iterator[tuple[str, sparse.csr_array, list[str]]]:
        """Of each part how often the runs of its columns are in each text ``[n, R]``, and these runs."""
        if self.level == "characters":
            counts, runs, _ = _count_runs(["".join(text) for text in tokens], CHARACTERS, "")
        else:
            counts, runs, words = _count_runs(tokens, self.ngram, " ")
            yield "words", counts, runs
            # Runs of characters are counted once in each word that is there.
            in_words, runs, _ = _count_runs([" ".join(("", word, "")) for word in words], CHARACTERS, "")
            counts = counts[:, : len(words)] @ in_words
        yield "characters", counts, runs


def _count_runs(
    strings: Sequence[Sequence[str]], longest: int, glue: str
) -> tuple[sparse.csr_array, list[str], list[str]]:
    """How often each run of 1 to ``longest`` tokens is in each string ``[n, R]``.

    Returns:
        The counts, the runs, and the tokens: they are the first runs.
    """
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    owner, end = np.repeat(np.arange(len(strings)), lengths), np.repeat(lengths.cumsum(), lengths)
    token, tokens = _numbered([*chain.from_iterable(strings)])
    begin, run, runs = np.arange(len(token)), token, tokens
    counts, names = [_table(owner, run, len(strings), len(runs))], [*runs]
    for length in range(2, longest + 1):  # a run, and the token behind it
        inside = begin + length <= end[begin]
        begin, run = begin[inside], run[inside]
        run, pairs = pd.factorize(run * len(tokens) + token[begin + length - 1])
        shorter, last = np.divmod(pairs, max(len(tokens), 1))
        runs = [glue.join((runs[i], tokens[j])) for i, j in zip(shorter, last, strict=True)]
        counts.append(_table(owner[begin], run, len(strings), len(runs)))
        names += runs
    return sparse.csr_array(sparse.hstack(counts, format="csr")), names, tokens


def _table(row: np.ndarray, column: np.ndarray, num_rows: int, num_columns: int) -> sparse.csr_array:
    """How often each pair of a row and a column is there."""
    return sparse.csr_array((np.ones(len(row)), (row, column)), shape=(num_rows, num_columns))


def _numbered(tokens: list[str]) -> tuple[np.ndarray, list[str]]:
    """The number of each token, and the tokens by their numbers."""
    number, distinct = pd.factorize(np.array(tokens, dtype=object), use_na_sentinel=False)
    return number, distinct.tolist()


def _places(runs: Sequence[str], known: Mapping[str, int]) -> sparse.csr_array:
    """A one in the column of each known run ``[R, R known]``."""
    column = np.array([known.get(run, -1) for run in runs], dtype=np.int64)
    row = np.flatnonzero(column >= 0)
    return _table(row, column[row], len(runs), len(known))


def _features(counts: Any, idf: np.ndarray) -> Any:
    """Rows of length 1 from counts of runs."""
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    return normalize(counts, copy=False)


def _check_tokens(tokens: Tokens) -> None:
    for i, each in enumerate(tokens):
        if isinstance(each, str):
            raise TypeError(f"text {i}: expected a list of tokens, got the text {each!r:.40}")
