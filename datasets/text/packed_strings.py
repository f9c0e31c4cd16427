"""Strings of token ids or of vectors end to end, with a label each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets.files.arrays import content_hash, smallest
from wlkernelnn.datasets.files.spans import bounds_of, positions_of, take_spans
from wlkernelnn.datasets.graphs.splits import PARTS

from .vocabulary import Vocabulary, check_ids


@dataclass(frozen=True, eq=False)
class PackedStrings:
    """Strings of any lengths, empty ones too, in one flat array; ``strings[i]`` is one of them.

    :class:`~wlkernelnn.datasets.StringLoader` makes batches without Python per string.

    Attributes:
        tokens: ``[ΣT]`` token ids of all strings (any integer type), or ``[ΣT, d]`` vectors.
        ptr: int64 ``[S+1]``: where each string begins.
        y: ``[S]`` or ``[S, tasks]`` labels.

    Raises:
        ValueError: They contradict each other.
    """

    tokens: Tensor
    ptr: Tensor
    y: Tensor

    def __post_init__(self) -> None:
        if self.ptr.dim() != 1 or not self.ptr.numel() or int(self.ptr[0]) or (self.ptr.diff() < 0).any():
            raise ValueError("PackedStrings: ptr must begin with 0 and never decrease")
        for name, values, expected in (("tokens", self.tokens, self.ptr[-1]), ("y", self.y, len(self))):
            if len(values) != expected:
                raise ValueError(
                    f"PackedStrings: {name} has {len(values)} entries, expected {int(expected)} by ptr"
                )

    @classmethod
    def encode(
        cls, strings: Sequence[Sequence[str]], y: Sequence[int] | np.ndarray, vocabulary: Vocabulary
    ) -> PackedStrings:
        """Pack strings of tokens.

        Args:
            strings: The tokens of each string. A ``str`` is a string of characters.
            y: The label of each, ``[S]`` or ``[S, tasks]``.
            vocabulary: Numbers the tokens.

        Raises:
            ValueError: A token is not in the vocabulary, or there are not as many labels as strings.
        """
        ids = vocabulary.encode(chain.from_iterable(strings)).numpy()
        lengths = np.fromiter(map(len, strings), dtype=np.int64, count=len(strings))
        return cls(smallest(ids), torch.from_numpy(bounds_of(lengths)), torch.as_tensor(np.asarray(y)))

    def __len__(self) -> int:
        return len(self.ptr) - 1

    def __getitem__(self, i: int) -> Tensor:
        if not -len(self) <= i < len(self):
            raise IndexError(f"string {i} of {len(self)}")
        begin, end = self.ptr[i % len(self) :][:2].tolist()
        tokens = self.tokens[begin:end].clone()  # what is done to it stays there
        return tokens if tokens.is_floating_point() else tokens.long()

    @property
    def lengths(self) -> Tensor:
        """int64 ``[S]``."""
        return self.ptr.diff()

    def digest(self) -> str:
        """SHA-256 of the strings and their labels."""
        return content_hash("strings", self.tokens, self.ptr, self.y)

    def select(self, positions: np.ndarray | Tensor | Sequence[int]) -> PackedStrings:
        """The strings at some positions, in their order, with repetitions if there are any.

        Args:
            positions: Numbers of strings, those below 0 counted from the end, or a mask of all of them.

        Raises:
            IndexError: There is no such string, or a mask is not of all of them.
        """
        positions = positions_of(len(self), positions)
        (tokens,), _, bounds = take_spans(self.ptr.numpy(), positions, self.tokens.numpy())
        return PackedStrings(
            torch.from_numpy(tokens), torch.from_numpy(bounds), self.y[torch.from_numpy(positions)]
        )


@dataclass(frozen=True, eq=False)
class LabelledStrings:
    """A classification of strings in three parts.

    Attributes:
        train, valid, test: The strings; ``y`` int64 ``[S]`` numbers the classes.
        vocabulary: Their tokens.
        classes: Names of the classes.
        name: Name of the data set.
        note: What tables have to say of it, such as that it is a sample.

    Raises:
        ValueError: A part has ids or labels that are not those of tokens or classes.
    """

    train: PackedStrings
    valid: PackedStrings
    test: PackedStrings
    vocabulary: Vocabulary
    classes: tuple[str, ...]
    name: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        for part in PARTS:
            strings = getattr(self, part)
            check_ids(strings.tokens, len(self.vocabulary), f"{self.name} {part} tokens".strip())
            check_ids(strings.y, len(self.classes), f"{self.name} {part} y".strip())

    def class_counts(self) -> dict[str, list[int]]:
        """How many strings of each class every part has."""
        num_classes = len(self.classes)
        return {part: getattr(self, part).y.bincount(minlength=num_classes).tolist() for part in PARTS}
