"""Epochs of any length."""

from __future__ import annotations

import numpy as np


class EndlessShuffle:
    """Epochs that are stretches of one endless sequence: all items in a random order, then in another, ….

    Any epoch is computed from its number alone. Goes into the loaders as ``resample=``.

    Args:
        num_items: Number of items.
        num_samples: Length of an epoch; it may be smaller or larger than ``num_items``.
        seed: Seed of all orders.

    Raises:
        ValueError: A number is not positive.
    """

    def __init__(self, num_items: int, num_samples: int, seed: int = 0) -> None:
        for name, value in (("num_items", num_items), ("num_samples", num_samples)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        self.num_items = num_items
        self.num_samples = num_samples
        self.seed = seed

    def __call__(self, epoch: int) -> np.ndarray:
        """Positions of the items of an epoch, int64 ``[num_samples]``."""
        begin = epoch * self.num_samples
        first, last = begin // self.num_items, (begin + self.num_samples - 1) // self.num_items
        orders = [
            np.random.default_rng((self.seed, lap)).permutation(self.num_items)
            for lap in range(first, last + 1)
        ]
        skipped = begin - first * self.num_items
        return np.concatenate(orders)[skipped : skipped + self.num_samples]
