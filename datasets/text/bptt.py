"""Truncated back-propagation through time: a long text as a few streams, a stretch of each at a time."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor


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
        tokens: Token ids ``[N]``.
        batch_size: Streams B.
        bptt: Length T of a stretch.

    Raises:
        ValueError: ``tokens`` are not ``[N]``, ``batch_size`` or ``bptt`` < 1, or a stream would be empty.
    """

    def __init__(self, tokens: Tensor, batch_size: int = 32, bptt: int = 35) -> None:
        for name, value in (("batch_size", batch_size), ("bptt", bptt)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if tokens.dim() != 1:
            raise ValueError(f"tokens must be [N], got shape {list(tokens.shape)}")
        if len(tokens) <= batch_size:
            raise ValueError(
                f"{batch_size} streams need at least {batch_size + 1} tokens (the last is only a target), "
                f"got {len(tokens)}"
            )
        self.batch_size = batch_size
        self.bptt = bptt
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
        return zip(self._inputs.split(lengths, 1), self._targets.split(lengths, 1), strict=True)
