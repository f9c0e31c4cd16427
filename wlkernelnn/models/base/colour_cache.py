"""What a network with frozen weights computed of the colours that it has met."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops.colours import KnownColours, Quotient, quotient_of

#: Colours that are remembered: with 176 channels, states and keys take about 0.3 GB.
CAPACITY = 2**18


class ColourCache:
    """The states of the Weisfeiler-Lehman colours of all batches so far, of one network, on the CPU.

    Predictions for a library of graphs come to their states by the thousand and share most of them: each is
    computed once, as long as there is room. A state that comes from here is what the network would compute,
    but for the rounding of sums in another order. When weights change, or autocast, the cache begins anew.

    Args:
        capacity: Colours to remember; those that come first stay.

    Raises:
        ValueError: ``capacity`` < 1.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self._forget()

    def _forget(self) -> None:
        self._known = KnownColours(self.capacity)
        self._rows = torch.empty(0, 0)
        self._weights: list[Tensor] = []
        self._autocast: tuple[bool, torch.dtype] | None = None

    def __len__(self) -> int:
        """How many colours are remembered."""
        return len(self._known)

    def states(
        self,
        codes: Tensor,
        quotient: Quotient,
        compute: Callable[[Tensor, Quotient], Tensor],
        weights: Iterable[Tensor],
    ) -> tuple[Tensor, Tensor]:
        """The states of a batch's last colours.

        Args:
            codes: Node codes of the batch, int64 ``[N, F]``.
            quotient: The batch by its colours.
            compute: From codes of the colours 0 and a quotient to the states of its last colours, ``[C, d]``.
            weights: All that ``compute`` depends on otherwise.

        Returns:
            Rows ``[R, d]``, and the row of each colour, int64 ``[C]``. The next call overwrites some rows.
        """
        if self._known.depth not in (None, quotient.depth):
            self._forget()  # they are of another number of iterations
        now, autocast = list(weights), (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
        same = autocast == self._autocast and len(now) == len(self._weights)
        # Outside inference mode nothing can be written to what was made in it.
        same = same and (torch.is_inference_mode_enabled() or not self._rows.is_inference())
        if not same or not all(map(_same, now, self._weights)):
            self._forget()
            self._weights, self._autocast = [weight.detach().clone() for weight in now], autocast
        first = codes.index_select(0, quotient.first)
        before = len(self._known)
        place = self._known.numbers(first.long().numpy(), quotient)
        missing = np.flatnonzero((place < 0) | (place >= before))
        if missing.size:
            if missing.size < place.size:
                quotient = quotient_of(quotient, missing)
                first = codes.index_select(0, quotient.first)
            # Those that there is no room for stand behind the others, until the next batch.
            others = missing[place[missing] < 0]
            place[others] = len(self._known) + np.arange(others.size)
            try:
                self._write(torch.from_numpy(place[missing]), compute(first, quotient), before)
            except BaseException:
                self._forget()  # there are numbers without states
                raise
        return self._rows, torch.from_numpy(place)

    def _write(self, place: Tensor, states: Tensor, before: int) -> None:
        needed = int(place.max()) + 1
        if self._rows.size(0) < needed:
            # As many as it may ever be: memory that nobody has written to takes no room.
            rows = states.new_empty(max(needed, self.capacity) + len(states), states.size(1))
            if before:
                rows[:before] = self._rows[:before]
            self._rows = rows
        self._rows.index_copy_(0, place, states)


def _same(one: Tensor, other: Tensor) -> bool:
    # By content: what is written through .data leaves no other trace.
    return one.dtype == other.dtype and torch.equal(one, other)
