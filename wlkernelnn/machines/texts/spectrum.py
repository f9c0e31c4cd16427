"""Texts by the runs of words and of characters in them: features of spectrum kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from wlkernelnn.datasets.text.texts import LEVELS
from wlkernelnn.utils.checks import check_count, check_one_of

#: The longest run of characters.
CHARACTERS = 5
# Words that are remembered with their runs.
SHORT = 32
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
        self.runs_, self._known, idfs, found = {}, None, [], []
        few = f"min_count={self.min_count}: no token is in so many of {len(tokens):,} texts"
        if not any(tokens):
            raise ValueError(few)
        for part, list_runs in self.parts().items():
            counter = CountVectorizer(analyzer=list_runs, dtype=np.float64)
            counts = counter.fit_transform(tokens)
            texts = np.bincount(counts.indices)
            kept = texts >= self.min_count
            self.runs_[part] = counter.get_feature_names_out()[kept].tolist()
            idfs.append(1 + np.log((1 + len(tokens)) / (1 + texts[kept])))
            if self.runs_[part]:
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
        for part, list_runs in self.parts().items():
            if runs := known[part]:
                counter = CountVectorizer(analyzer=list_runs, vocabulary=runs, dtype=np.float64)
                found.append(_features(counter.transform(tokens), self.idf_[begin : begin + len(runs)]))
                begin += len(runs)
        return sparse.csr_array(sparse.hstack(found, format="csr"))

    def known(self) -> dict[str, dict[str, int]]:
        """The place of each run in its part."""
        if self._known is None:
            self._known = {part: {run: i for i, run in enumerate(runs)} for part, runs in self.runs_.items()}
        return self._known

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_known": None}  # made anew

    def parts(self) -> dict[str, Callable[[Sequence[str]], list[str]]]:
        """What lists the runs of a text, for each part of the kernel."""
        if self.level == "characters":
            return {"characters": lambda tokens: _runs("".join(tokens), CHARACTERS)}
        of_short = lru_cache(2**16)(lambda word: _runs(f" {word} ", CHARACTERS))

        def of_word(word: str) -> list[str]:
            return of_short(word) if len(word) <= SHORT else _runs(f" {word} ", CHARACTERS)

        return {
            "words": lambda tokens: [" ".join(run) for run in _runs(tokens, self.ngram)],
            "characters": lambda tokens: [run for word in tokens for run in of_word(word)],
        }


def _features(counts: Any, idf: np.ndarray) -> Any:
    """Rows of length 1 from counts of runs."""
    counts.data = (1 + np.log(counts.data)) * idf[counts.indices]
    return normalize(counts, copy=False)


def _check_tokens(tokens: Tokens) -> None:
    for i, each in enumerate(tokens):
        if isinstance(each, str):
            raise TypeError(f"text {i}: expected a list of tokens, got the text {each!r:.40}")


def _runs(string: Sequence[str], longest: int) -> list[Any]:
    """All runs of 1 to ``longest`` items of a string."""
    lengths = range(1, min(longest, len(string)) + 1)
    return [string[i : i + n] for n in lengths for i in range(len(string) - n + 1)]
