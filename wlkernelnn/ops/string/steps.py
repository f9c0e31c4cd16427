"""Strings in the order of their steps: what lies together is computed together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from wlkernelnn.ops.fast_op import FastOp
from wlkernelnn.utils.checks import holds_integers

# Where strings begin, ``[B+1]``.
Pointers = Tensor | np.ndarray | Sequence[int]


class Steps:
    r"""Strings end to end, and the same tokens in the order of their steps.

    In *string order* all tokens of the first string come first, as in a batch of path graphs; ``ptr`` says
    where strings begin. In *step order* the first tokens of all strings come first, then the second ones, …,
    with the strings in the order of falling length: those that still have a token t are the first ones, so
    that a step is a slice. This is the order of a ``torch.nn.utils.rnn.PackedSequence``. Nothing is padded.

    Args:
        ptr: ``[B+1]``, where each string begins in string order; the last entry is the number N of tokens. A
            tensor, an array or a list.
        device: Where orders of rows are kept; default: where ``ptr`` is.
        order: Rows of tokens ``[N]`` in string order, where :meth:`enter` and :meth:`leave` have them in
            another one, as the nodes of a graph may be; default 0 … N−1.

    Attributes:
        ptr: As given, as an int64 tensor.
        num_strings, num_tokens: B and N.
        counts: How many strings have a token t, for t = 0 … T−1.

    Raises:
        ValueError: ``ptr`` is not a vector of integers that begins with 0 and never falls; or it is a tensor
            in a program that is traced or exported: there the lengths of strings are constants.
    """

    # Of tokens outside: from their own order to string order, and back.
    _order: tuple[Tensor, Tensor] | None = None

    def __init__(
        self, ptr: Pointers, device: torch.device | None = None, order: Tensor | None = None
    ) -> None:
        exporting = torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
        if isinstance(ptr, Tensor) and (torch.jit.is_tracing() or exporting):
            raise ValueError(
                "a traced or exported program has lengths of strings as constants: give ptr as a list, or "
                "padded strings [B, T, …] without ptr"
            )
        begins = torch.as_tensor(ptr, device=device)
        if begins.dim() != 1 or not begins.numel() or not holds_integers(begins):
            raise ValueError(
                f"ptr must be a vector of integers [B+1], got {begins.dtype} {list(begins.shape)}"
            )
        numbers = list(map(int, ptr if isinstance(ptr, (list, tuple)) else begins.tolist()))
        lengths = [end - begin for begin, end in itertools.pairwise(numbers)]
        if numbers[0] != 0 or any(length < 0 for length in lengths):
            shown = f"{numbers[:6]}".replace("]", ", …]") if len(numbers) > 6 else f"{numbers}"
            raise ValueError(f"ptr must begin with 0 and never fall, got {shown}")
        counts, rest = [], sorted(lengths)
        count = len(rest)
        for t in range(rest[-1] if rest else 0):
            while rest[len(rest) - count] <= t:
                count -= 1
            counts.append(count)
        self._hold(begins.long(), counts, len(set(lengths)) <= 1)
        if order is not None:
            self._order = order, inverse(order)

    @classmethod
    def of(cls, x: Tensor, ptr: Pointers, name: str) -> Steps:
        """The steps of tokens ``[N, …]``; refuses a ``ptr`` that does not end at N, by the reader's name."""
        steps = cls(ptr, x.device)
        if steps.num_tokens != len(x):
            raise ValueError(f"{name}: ptr ends at {steps.num_tokens}, x has {len(x)} tokens")
        return steps

    @classmethod
    def padded(cls, num_strings: int, length: int, device: torch.device | None = None) -> Steps:
        """Strings of equal length, the rows of a tensor ``[B, T, …]``."""
        steps = cls.__new__(cls)  # without a look at ptr, which may be on a device, or of a compiler
        steps._hold(torch.arange(num_strings + 1, device=device) * length, length * [num_strings], True)
        return steps

    @classmethod
    def packed(cls, strings: PackedSequence) -> Steps:
        """The steps of packed strings, whose tokens are in step order already."""
        _, sizes, order, _ = strings
        device, num_strings = strings.data.device, int(sizes[0])
        lengths = (sizes.unsqueeze(1) > torch.arange(num_strings)).sum(0).to(device)
        if order is None:
            order = torch.arange(num_strings, device=device)
        ptr = torch.nn.functional.pad(lengths[inverse(order)].cumsum(0), (1, 0))
        steps = cls.__new__(cls)
        steps._hold(ptr, sizes.tolist(), False, order)
        return steps

    def _hold(self, ptr: Tensor, counts: list[int], equal: bool, order: Tensor | None = None) -> None:
        self.ptr, self.counts, self.equal = ptr, counts, equal
        self.num_strings, self.num_tokens = ptr.numel() - 1, sum(counts)
        if equal:
            return
        # The step and the string of every token in step order, [N], and where the states and then each step
        # begin behind each other, [T+1]. Equally long strings need none of these.
        device = self.ptr.device
        sizes = torch.tensor(counts, device=device, dtype=torch.long)
        begins = sizes.cumsum(0) - sizes
        self.starts = torch.nn.functional.pad(begins + self.num_strings, (1, 0))
        self.step = torch.arange(len(counts), device=device).repeat_interleave(
            sizes, output_size=self.num_tokens
        )
        self.string = torch.arange(self.num_tokens, device=device) - begins[self.step]
        if order is None:
            order = torch.argsort(self.ptr.diff(), descending=True, stable=True)
        self._by_length = order
        self._by_number = inverse(self._by_length)
        # Where every token of the step order stands in string order; and where every string ends, behind a
        # step of the states: an empty one where its state is.
        self._place = self.ptr[:-1][self._by_length][self.string] + self.step
        self._place_back = inverse(self._place)
        self._last = self.starts[self.lengths] + torch.arange(self.num_strings, device=device)

    @property
    def lengths(self) -> Tensor:
        """Tokens of every string, in the order of a step, ``[B]``."""
        return self.ptr.diff() if self.equal else self.ptr.diff()[self._by_length]

    def enter(self, x: Tensor) -> Tensor:
        """Tokens ``[N, …]`` from string order to step order."""
        if self._order is not None:
            x = _permuted(x, *self._order)[0]
        if self.equal:
            return self._turned(x, self.num_strings, len(self.counts))
        return _permuted(x, self._place, self._place_back)[0]

    def leave(self, x: Tensor) -> Tensor:
        """Tokens ``[N, …]`` from step order to string order, as a tensor of their own."""
        if self.equal:
            turned = self._turned(x, len(self.counts), self.num_strings)
            left = x.clone() if turned is x else turned
        else:
            left = _permuted(x, self._place_back, self._place)[0]
        return left if self._order is None else _permuted(left, *reversed(self._order))[0]

    @cached_property
    def _mirrored(self) -> Tensor:
        """Of every token in step order the one at the same distance from the other end of its string."""
        step = self.lengths[self.string] - 1 - self.step
        return self.starts[step + 1] - self.num_strings + self.string

    def reverse(self, x: Tensor) -> Tensor:
        """Tokens ``[N, …]`` in step order, each string from its last token to its first one."""
        if self.equal:
            return x.view(len(self.counts), self.num_strings, *x.shape[1:]).flip(0).view(x.shape)
        return _permuted(x, self._mirrored, self._mirrored)[0]

    @property
    def opposite(self) -> Steps:
        """The steps of what :meth:`reverse` gives."""
        return self

    @staticmethod
    def _turned(x: Tensor, rows: int, columns: int) -> Tensor:
        if rows <= 1 or columns <= 1:
            return x
        return x.view(rows, columns, *x.shape[1:]).transpose(0, 1).reshape(x.shape)

    def sort(self, state: Tensor) -> Tensor:
        """States ``[…, B, d]`` of strings into the order of the strings in a step."""
        return state if self.equal else state.index_select(-2, self._by_length)

    def unsort(self, state: Tensor) -> Tensor:
        """States ``[…, B, d]`` of strings into the order of the strings in ``ptr``."""
        return state if self.equal else state.index_select(-2, self._by_number)

    def split(self, x: Tensor) -> list[Tensor]:
        """The steps of tokens ``[N, …]`` in step order, as views."""
        if self.equal:
            return list(x.view(len(self.counts), self.num_strings, *x.shape[1:]).unbind(0))
        return list(x.split(self.counts))

    def each(self, *values: Tensor | None) -> list[tuple[Any, ...]]:
        """Step by step the steps of all values; ``None`` stays."""
        nothing = [None] * len(self.counts)
        return list(zip(*(nothing if value is None else self.split(value) for value in values), strict=True))

    def of_tokens(self, state: Tensor) -> Tensor:
        """What strings have, ``[B, d]``, at each of their tokens, ``[N, d]``; all in step order."""
        if self.equal:
            return state.repeat(len(self.counts), 1)
        return state.index_select(0, self.string)

    def room(self, like: Tensor, state: Tensor | None) -> Tensor:
        """``[B + N, d]`` in step order: the state (or 0) as a step before the first one, then nothing yet."""
        extended = like.new_empty(self.num_strings + self.num_tokens, like.size(1))
        extended[: self.num_strings] = 0 if state is None else state
        return extended

    def pairs(self, extended: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Views of a filled :meth:`room`: for each step, the rows of the one before and its own."""
        blocks = extended.split([self.num_strings, *self.counts])
        if self.equal:
            return list(itertools.pairwise(blocks))
        return [(before[: len(now)], now) for before, now in itertools.pairwise(blocks)]

    def previous(self, extended: Tensor) -> Tensor:
        """The row before every token in a filled :meth:`room`, ``[N, d]``."""
        if self.equal:
            return extended[: self.num_tokens]
        return torch.cat([before for before, _ in self.pairs(extended)])

    def last(self, extended: Tensor) -> Tensor:
        """A copy of the last row of every string in a filled :meth:`room`, ``[B, d]``."""
        if self.equal:
            return extended[self.num_tokens :].clone()
        return extended.index_select(0, self._last)


def inverse(permutation: Tensor) -> Tensor:
    """The permutation that leads back."""
    back = torch.empty_like(permutation)
    back[permutation] = torch.arange(permutation.numel(), device=permutation.device)
    return back


# Rows in another order; backwards a gather too, where ``index_select`` would add.
_permuted = FastOp(
    lambda x, order, back: (x.index_select(0, order),),
    None,
    lambda values, kept, needed, grads: (grads[0].index_select(0, values[2]), None, None),
)
