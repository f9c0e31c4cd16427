"""Word vectors from GloVe's text format (Pennington et al. 2014)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets.files.download import opened

from .vocabulary import Vocabulary, check_ids


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Vectors for the tokens of a vocabulary.

    Attributes:
        weight: float32 ``[V, d]``, a row per token.
        known: bool ``[V]``: which of them the file has.
        num_repeated: How often a word of the vocabulary was in the file again; the first time counts.
    """

    weight: Tensor
    known: Tensor
    num_repeated: int

    def out_of_vocabulary(self, ids: Tensor | None = None) -> dict[str, float]:
        """How much the file does not cover.

        Args:
            ids: Token ids of a text, to count how often such tokens occur in it.

        Returns:
            ``oov_types`` and ``oov_type_fraction``, over the vocabulary; with ``ids`` also ``oov_tokens``
            and ``oov_token_fraction``, over the text.
        """
        missing = ~self.known
        report = _share(missing, "type")
        if ids is None:
            return report
        check_ids(ids, len(missing), "ids")
        return report | _share(missing[ids.long()], "token")


def _share(missing: Tensor, name: str) -> dict[str, float]:
    count = int(missing.sum())
    return {f"oov_{name}s": count, f"oov_{name}_fraction": count / max(len(missing), 1)}


def load_glove(
    path: str | os.PathLike[str],
    vocabulary: Vocabulary,
    *,
    unit_norm: bool = False,
    oov_std: float = 0.0,
    seed: int = 0,
) -> WordVectors:
    """Read the vectors of a vocabulary's tokens from any file in GloVe's text format.

    A line is a word and its numbers with a blank between each. Only the lines of words that are wanted are
    turned into numbers; of all others the width and the encoding are checked. Words that hold blanks
    themselves (GloVe 840B has some) are passed over. Tokens are looked up as they are: GloVe's sets 6B and
    42B are lower-cased.

    Args:
        path: A text file (UTF-8), or its ``.gz``.
        vocabulary: The tokens.
        unit_norm: Divide the vectors of the file by their Euclidean norms (a zero vector stays).
        oov_std: Rows of tokens that the file lacks are drawn from a normal distribution of this standard
            deviation and mean 0. With 0 they are zero, as in the sentiment experiments of Lei et al. 2017.
        seed: Seed of those rows.

    Returns:
        The vectors, and what was missing.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty or damaged, a line has more or fewer numbers than the first, a word is
            not UTF-8, or a wanted word has something that is not a finite number: names the line.
    """
    path = Path(path)
    if not 0 <= oov_std < math.inf:
        raise ValueError(f"oov_std must be a standard deviation, got {oov_std}")
    wanted = {token.encode(): i for i, token in enumerate(vocabulary.tokens)}
    ids: dict[int, int] = {}  # the line of each token that was found
    texts: list[str] = []
    width, num_repeated = 0, 0
    with opened(path) as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip()
            if not line:
                continue
            blanks = line.count(b" ")
            width = width or blanks
            if blanks != width or not width:
                _check_width(path, number, line, width)
                continue
            word = line[: line.index(b" ")]
            try:
                word.decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}: line {number}: the word {word!r} is not UTF-8") from error
            token = wanted.get(word)
            if token is None:
                continue
            if token in ids:
                num_repeated += 1
                continue
            ids[token] = number
            texts.append(line[len(word) + 1 :].decode("latin-1"))
    if not width:
        raise ValueError(f"{path}: the file is empty")
    rows = torch.tensor(list(ids), dtype=torch.int64)
    vectors = _numbers(path, list(ids.values()), texts, width)
    if unit_norm:
        vectors = torch.nn.functional.normalize(vectors, dim=1)
    rng = torch.Generator().manual_seed(seed)
    weight = torch.randn(len(vocabulary), width, generator=rng) * oov_std
    weight[rows] = vectors
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    known[rows] = True
    return WordVectors(weight, known, num_repeated)


def _check_width(path: Path, number: int, line: bytes, width: int) -> None:
    """Raise an error unless the line has too many fields only because its word holds blanks."""
    fields = line.split(b" ")
    if not width:
        raise ValueError(
            f"{path}: line {number}: expected a word and its numbers with a blank between each, "
            f"got {line[:60].decode(errors='replace')!r}"
        )
    rest_of_word = fields[1:-width]
    if not rest_of_word or not all(field and not _is_number(field) for field in rest_of_word):
        raise ValueError(
            f"{path}: line {number}: expected {width} numbers as in the first line, got {len(fields) - 1}"
        )


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _numbers(path: Path, lines: list[int], texts: list[str], width: int) -> Tensor:
    """float32 ``[len(texts), width]``; ``lines`` are those that the texts come from."""
    if not texts:
        return torch.zeros(0, width)
    try:
        values = _parse(texts)
    except ValueError:
        for line, text in zip(lines, texts, strict=True):
            try:
                _parse([text])
            except ValueError as error:
                raise ValueError(f"{path}: line {line}: expected {width} numbers ({error})") from error
        raise
    if len(wrong := np.flatnonzero(~np.isfinite(values).all(axis=1))):
        raise ValueError(f"{path}: line {lines[wrong[0]]}: a number is not finite (in float32)")
    return torch.from_numpy(values)


def _parse(texts: list[str]) -> np.ndarray:
    return np.loadtxt(texts, dtype=np.float32, delimiter=" ", comments=None, ndmin=2)
