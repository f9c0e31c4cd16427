"""Word vectors from GloVe's text format (Pennington et al. 2014)."""

from __future__ import annotations

import itertools
import math
import os
import re
from codecs import BOM_UTF8
from collections.abc import Sequence
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

        Returns:
            ``oov_types`` and ``oov_type_fraction``, over the vocabulary; for the token ``ids`` of a text also
            ``oov_tokens`` and ``oov_token_fraction``, over the text.
        """
        missing = {"type": ~self.known}
        if ids is not None:
            check_ids(ids, len(self.known), "ids")
            missing["token"] = ~self.known[ids.long()]
        report: dict[str, float] = {}
        for name, of_name in missing.items():
            count = int(of_name.sum())
            report |= {f"oov_{name}s": count, f"oov_{name}_fraction": count / max(len(of_name), 1)}
        return report


def load_glove(
    path: str | os.PathLike[str],
    vocabulary: Vocabulary,
    *,
    unit_norm: bool = False,
    oov_std: float = 0.0,
    seed: int = 0,
) -> WordVectors:
    """Read the vectors of a vocabulary's tokens from any file in GloVe's text format.

    A line is a word and its numbers with a blank between each. The first line of word2vec's and fastText's
    text files, how many words there are and how many numbers each has, is passed over. Only the lines of
    words that are wanted are turned into numbers; of all others the width and the encoding are checked. Words
    that hold blanks themselves (GloVe 840B has some) are passed over. Tokens are looked up as they are:
    GloVe's sets 6B and 42B are lower-cased.

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
        FileNotFoundError: The file does not exist.
        ValueError: The file is empty or damaged, a line has more or fewer numbers than the first, a word is
            not UTF-8, or a wanted word has something that is not a finite number: names the line.
    """
    path = Path(path)
    if not 0 <= oov_std < math.inf:
        raise ValueError(f"oov_std must be a standard deviation, got {oov_std}")
    wanted = {token.encode(): i for i, token in enumerate(vocabulary.tokens)}
    found: dict[int, np.ndarray] = {}
    width, num_repeated = 0, 0
    with opened(path) as file:
        first = [*itertools.islice(file, 2)]
        first[:1] = [line.removeprefix(BOM_UTF8) for line in first[:1]]
        for number, line in enumerate(itertools.chain(first, file), 1):
            line = line.rstrip()
            if not line or (number == 1 and _is_header(first)):
                continue
            blanks = line.count(b" ")
            width = width or (0 if b"\t" in line else blanks)
            if blanks != width or not width:
                _check_width(path, number, line, width)
                continue
            word, numbers = line.split(b" ", 1)
            try:
                word.decode()
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}: line {number}: the word {word!r} is not UTF-8") from error
            token = wanted.get(word)
            if token in found:
                num_repeated += 1
            elif token is not None:
                found[token] = _vector(f"{path}: line {number}", numbers)
    if not width:
        raise ValueError(f"{path}: the file is empty")
    rows = torch.tensor(list(found), dtype=torch.int64)
    vectors = torch.from_numpy(np.array(list(found.values()), dtype=np.float32).reshape(-1, width))
    if unit_norm:
        vectors = torch.nn.functional.normalize(vectors, dim=1)
    rng = torch.Generator().manual_seed(seed)
    weight = torch.randn(len(vocabulary), width, generator=rng) * oov_std
    weight[rows] = vectors
    known = torch.zeros(len(vocabulary), dtype=torch.bool)
    known[rows] = True
    return WordVectors(weight, known, num_repeated)


def _is_header(lines: Sequence[bytes]) -> bool:
    """Whether the first of two lines says how many words there are, and how many numbers the second has."""
    if not re.fullmatch(rb"\d+ \d+", lines[0].rstrip()):
        return False
    return len(lines) < 2 or int(lines[0].split()[1]) == lines[1].rstrip().count(b" ")


def _check_width(path: Path, number: int, line: bytes, width: int) -> None:
    """Raise an error unless the line has too many fields only because its word holds blanks."""
    where = f"{path}: line {number}"
    if not width:
        shown = line[:60].decode(errors="replace")
        raise ValueError(f"{where}: expected a word and its numbers with a blank between each, got {shown!r}")
    fields = line.split(b" ")
    rest_of_word = fields[1:-width]
    if not rest_of_word or any(not field or _is_number(field) for field in rest_of_word):
        raise ValueError(f"{where}: expected {width} numbers as in the first line, got {len(fields) - 1}")


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _vector(where: str, numbers: bytes) -> np.ndarray:
    fields = numbers.split(b" ")
    try:
        with np.errstate(over="ignore"):
            vector = np.array(fields).astype(np.float32)
    except ValueError as error:
        raise ValueError(f"{where}: expected {len(fields)} numbers ({error})") from error
    if not np.isfinite(vector).all():
        raise ValueError(f"{where}: a number is not finite (in float32)")
    return vector
