"""Truncated back-propagation through time: a long text as a few streams, a stretch of each at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from torch import Tensor

from wlkernelnn.datasets.graphs.epochs import place_of
from wlkernelnn.utils.checks import check_count

from .vocabulary import TokenIds, as_ids


class BPTTLoader:
    """Stretches of a text for language modelling with a carried state.

    The N tokens are cut into ``batch_size`` streams that stand below each other. A batch is
    ``(input [B, T], target [B, T])``, views of the text: T = ``bptt`` consecutive tokens of every stream (in
    the last batch there may be fewer), and the token that follows each of them. Row b of a batch goes on
    where row b of the one before ended, so the caller carries the state from batch to batch and begins an
    epoch with an empty one.

    Every stream has (N − 1) // B targets; (N − 1) mod B at the end of the text are left out. With
    ``batch_size=1``, the way to evaluate, all N − 1 targets are there (the first token has no context and is
    none).

    Args:
        tokens: Token ids ``[N]``, any integers in a tensor, an array or a list; batches are int64.
        batch_size: Streams B.
        bptt: Length T of a stretch.
        num_replicas: Processes that share the streams: each has some of them in all of its batches. Default:
            those of ``torch.distributed`` if it is initialised when an epoch begins, else 1.
        rank: Which of them this is; default that of ``torch.distributed``.

    Raises:
        ValueError: ``tokens`` are not integers ``[N]``, ``batch_size`` or ``bptt`` is not an integer of at
            least 1, a stream would be empty, or ``rank`` is not below ``num_replicas``.
    """

    def __init__(
        self,
        tokens: TokenIds,
        batch_size: int = 32,
        bptt: int = 35,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        place_of(rank, num_replicas)
        batch_size, bptt = check_count("batch_size", batch_size), check_count("bptt", bptt)
        tokens = as_ids(tokens)
        if len(tokens) <= batch_size:
            needed = f"at least {batch_size + 1} tokens (the last is only a target)"
            raise ValueError(f"{batch_size} streams need {needed}, got {len(tokens)}")
        self.batch_size = batch_size
        self.bptt = bptt
        self.num_replicas = num_replicas
        self.rank = rank
        used = (len(tokens) - 1) // batch_size * batch_size
        self._inputs = tokens[:used].view(batch_size, -1)
        self._targets = tokens[1 : used + 1].view(batch_size, -1)

    @property
    def num_targets(self) -> int:
        """Targets of an epoch, over all streams."""
        return self._targets.numel()

    def __len__(self) -> int:
        return -(-self._inputs.size(1) // self.bptt)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self.cut(self.bptt)

    def cut(self, lengths: int | list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """The text in stretches of other lengths: one for all, or each one's."""
        rank, num_replicas = place_of(self.rank, self.num_replicas)
        begin, end = (self.batch_size * i // num_replicas for i in (rank, rank + 1))
        both = (streams[begin:end].split(lengths, 1) for streams in (self._inputs, self._targets))
        return zip(*both, strict=True)


# The rule of Merity et al.: now and then half the length, then a normal distribution.
HALVED, DEVIATION, SHORTEST = 0.05, 5.0, 5


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
        ValueError: As of :class:`BPTTLoader`, or ``seed`` is not an integer of at least 0.
    """

    def __init__(self, tokens: TokenIds, batch_size: int = 20, bptt: int = 70, seed: int = 0) -> None:
        self.bptt = bptt
        self.seed = check_count("seed", seed, least=0)
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
