"""Truncated back-propagation through time, cut at random places."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from .bptt import BPTTLoader

# The rule of Merity et al.: now and then half the length, then a normal distribution.
HALVED = 0.05
DEVIATION = 5.0
SHORTEST = 5


class RandomBPTTLoader:
    r"""Stretches of a text, as of :class:`BPTTLoader`, of lengths drawn anew in every epoch.

    Where an epoch cuts the text, its tokens see no gradient from beyond; with fixed lengths these would
    always be the same tokens (Merity et al. 2018, section 4). A stretch has max(5, ⌊z⌋) tokens of every
    stream with z normal of deviation 5 around ``bptt``, or around half of it in one of twenty cases; the last
    has what is left. Lengths depend on the seed and the epoch alone.

    There is no ``len``: the number of stretches is the epoch's.

    Args:
        tokens, batch_size: See :class:`BPTTLoader`.
        bptt: The usual length of a stretch.
        seed: Seed of the lengths.

    Attributes:
        epoch: The next one to read, 0 at first.

    Raises:
        ValueError: As of :class:`BPTTLoader`.
    """

    def __init__(self, tokens: Tensor, batch_size: int = 20, bptt: int = 70, seed: int = 0) -> None:
        self.bptt = bptt
        self.seed = seed
        self.epoch = 0
        self._streams = BPTTLoader(tokens, batch_size, bptt)

    @property
    def num_targets(self) -> int:
        """Targets of an epoch, over all streams."""
        return self._streams.num_targets

    def lengths(self) -> list[int]:
        """Tokens of this epoch's stretches."""
        random = np.random.default_rng((self.seed, self.epoch))
        left, lengths = self.num_targets // self._streams.batch_size, []
        while left:
            centre = self.bptt / 2 if random.random() < HALVED else self.bptt
            lengths.append(min(max(SHORTEST, int(random.normal(centre, DEVIATION))), left))
            left -= lengths[-1]
        return lengths

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        yield from self._streams.cut(self.lengths())
        self.epoch += 1
