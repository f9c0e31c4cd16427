"""Ring counts: in how many rings of each size an atom lies."""

from __future__ import annotations

import numpy as np

# Sizes that have a column of their own; the next column is of all larger rings.
SIZES = (3, 4, 5, 6, 7, 8)
#: Names of the columns.
COLUMNS = (*(f"rings_of_{size}" for size in SIZES), "larger_rings")
#: A column says 0, 1, … and this many or more.
MOST = 3


def ring_counts(ring_sizes: np.ndarray, members: np.ndarray, num_atoms: int) -> np.ndarray:
    """How many rings of each size go through an atom, a structural encoding as of Bouritsas et al. 2022.

    Args:
        ring_sizes: ``[R]``: number of atoms of each ring.
        members: ``[ring_sizes.sum()]``: the atoms of the first ring, of the second, …
        num_atoms: How many atoms there are.

    Returns:
        uint8 ``[num_atoms, len(COLUMNS)]``, at most ``MOST``.
    """
    column = np.searchsorted(SIZES, ring_sizes)
    place = members * len(COLUMNS) + np.repeat(column, ring_sizes)
    counts = np.bincount(place, minlength=num_atoms * len(COLUMNS))
    return counts.clip(max=MOST).astype(np.uint8).reshape(num_atoms, len(COLUMNS))
