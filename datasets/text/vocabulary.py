"""Tokens and their numbers."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets.files.download import read_text
from wlkernelnn.datasets.graphs.arrays import readable
from wlkernelnn.utils.checks import check_count, holds_integers
from wlkernelnn.utils.files import write_text

FORMAT = "wlkernelnn.Vocabulary/1"
#: The token in the place of those that a vocabulary lacks.
UNKNOWN = "<unk>"

# ``[N]``, of any integers.
TokenIds = Tensor | np.ndarray | Sequence[int]


class Vocabulary:
    """A numbering of tokens: words, characters, or any other strings.

    Args:
        tokens: The tokens by their ids 0, 1, …
        unknown: The token that stands for every one that is not in the vocabulary; ``None`` makes such a
            token an error.

    Raises:
        TypeError: A token is not a ``str``.
        ValueError: A token is there twice, or ``unknown`` is not among them.
    """

    def __init__(self, tokens: Sequence[str], unknown: str | None = None) -> None:
        self.tokens = tuple(tokens)
        _check_words(self.tokens)
        self.unknown = unknown
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self._ids) != len(self.tokens):
            token, count = Counter(self.tokens).most_common(1)[0]
            raise ValueError(f"tokens must be distinct, {token!r} is there {count} times")
        if unknown is not None and unknown not in self._ids:
            raise ValueError(f"the unknown token {unknown!r} is not among the {len(self.tokens):,} tokens")

    @classmethod
    def build(
        cls,
        tokens: Iterable[str],
        *,
        special: str | Sequence[str] = (),
        unknown: str | None = None,
        min_count: int = 1,
    ) -> Vocabulary:
        """The vocabulary of a text: the most frequent token first; of equal ones that which occurs first.

        Args:
            tokens: The text. A ``str`` is a text of characters.
            special: Tokens that come before all others, whether they occur or not. A ``str`` is one token.
            unknown: See the class; it joins ``special`` if it occurs nowhere.
            min_count: Leave out tokens that occur less often.

        Raises:
            ValueError: ``min_count`` is not an integer of at least 1, or leaves tokens out and there is no
                ``unknown`` to stand for them.
        """
        min_count = check_count("min_count", min_count)
        counts = Counter(tokens)
        kept = [token for token, count in counts.most_common() if count >= min_count]
        if len(kept) < len(counts) and unknown is None:
            raise ValueError(
                f"min_count={min_count} leaves out {len(counts) - len(kept):,} tokens: give the unknown "
                "token that stands for them"
            )
        first = [special] if isinstance(special, str) else list(special)
        if unknown is not None and unknown not in first and unknown not in kept:
            first.append(unknown)
        return cls([*first, *(token for token in kept if token not in first)], unknown)

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: object) -> bool:
        return token in self._ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and (self.tokens, self.unknown) == (other.tokens, other.unknown)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} tokens, unknown={self.unknown!r})"

    def encode(self, tokens: Iterable[str]) -> Tensor:
        """Ids of tokens, int64 ``[number of tokens]``. A ``str`` is a text of characters.

        Raises:
            TypeError: A token for which the unknown one would stand is not a ``str``, such as a number.
            ValueError: A token is not in the vocabulary, and there is no unknown token to stand for it.
        """
        if self.unknown is not None:
            tokens = tokens if isinstance(tokens, str) else list(tokens)
            unknown = self._ids[self.unknown]
            ids = np.fromiter(map(self._ids.get, tokens, repeat(unknown)), dtype=np.int64)
            if not isinstance(tokens, str):
                _check_words(tokens, np.flatnonzero(ids == unknown).tolist())
            return torch.from_numpy(ids)
        try:
            return torch.from_numpy(np.fromiter(map(self._ids.__getitem__, tokens), dtype=np.int64))
        except KeyError as error:
            problem = f"is not in the vocabulary of {len(self):,} tokens, which has no unknown token"
            raise ValueError(f"token {error.args[0]!r} {problem}") from None

    def decode(self, ids: Tensor | Iterable[int]) -> list[str]:
        """The tokens of ids; a ``ValueError`` names an id that is not one, and its position."""
        numbers = torch.as_tensor(ids if isinstance(ids, Tensor) else list(ids))
        check_ids(numbers, len(self), "ids")
        return [self.tokens[i] for i in numbers.tolist()]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as JSON, one token on a line."""
        content = {"format": FORMAT, "unknown": self.unknown, "tokens": self.tokens}
        write_text(path, json.dumps(content, ensure_ascii=False, indent=0) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what :meth:`save` wrote; a ``ValueError`` if it is something else."""
        try:
            content = json.loads(read_text(path))
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']!r}, expected {FORMAT!r}")
            return cls(content["tokens"], content["unknown"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ValueError(f"{Path(path)}: not a vocabulary of wlkernelnn ({error})") from error


def _check_words(tokens: Sequence[Any], places: Iterable[int] | None = None) -> None:
    """Refuse tokens, at some places or all, that are no ``str``: numbers, bytes, or what stands for none."""
    for i in range(len(tokens)) if places is None else places:
        if not isinstance(tokens[i], str):
            raise TypeError(f"token {i} is {tokens[i]!r:.60}, expected a str")


def _integers(tokens: TokenIds, name: str) -> Tensor:
    try:
        ids = torch.as_tensor(readable(tokens))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be integers [N], got {tokens!r:.60}") from error
    if ids.dim() != 1 or (ids.numel() and not holds_integers(ids)):
        raise ValueError(f"{name} must be integers [N], got {ids.dtype} {list(ids.shape)}")
    return ids


def as_ids(tokens: TokenIds, name: str = "tokens") -> Tensor:
    """Any integers ``[N]`` in a tensor, an array or a list as int64; a ``ValueError`` if they are not."""
    return _integers(tokens, name).long()


def check_ids(ids: Tensor, num_tokens: int, name: str) -> None:
    """Raise a ``ValueError`` unless ``ids`` are integers ``[N]`` from 0 to ``num_tokens`` − 1."""
    ids = _integers(ids, name)
    if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= num_tokens):
        position = int(((ids.long() < 0) | (ids.long() >= num_tokens)).nonzero()[0])
        wrong = f"got {int(ids[position])} at position {position}"
        raise ValueError(f"{name}: expected ids from 0 to {num_tokens - 1}, {wrong}")
