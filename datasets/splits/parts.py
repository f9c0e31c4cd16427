"""Train, validation and test parts: at random, by groups that stay together, or as a column says."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

logger = logging.getLogger("wlkernelnn")

PARTS = ("train", "valid", "test")
SplitIndex = dict[str, np.ndarray]
Sizes = tuple[float, float, float]

# Of all molecules: a warning tells of a part that is so far from its size.
_FAR = 0.05
_LABELS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


def random_split(
    n: int, sizes: Sizes = (0.8, 0.1, 0.1), seed: int = 0, groups: np.ndarray | None = None
) -> SplitIndex:
    """Split 0 … n−1 at random; the same ``seed`` gives the same split.

    Args:
        n: How many there are.
        sizes: Fractions of train, validation and test.
        seed: Seed of the order.
        groups: A number for each, ``[n]``: those of equal numbers stay in one part, which then has its size
            to within a group.

    Returns:
        ``{"train": …, "valid": …, "test": …}``, sorted int64 positions.

    Raises:
        ValueError: ``sizes`` are not fractions that sum to 1, or leave a part without items; or there are not
            ``n`` groups.
    """
    check_sizes(sizes)
    order = np.random.default_rng(seed).permutation(n)
    cuts = np.rint(np.cumsum(sizes[:2]) * n).astype(np.int64)
    if groups is None:
        return named(np.split(order, cuts), sizes)
    if np.shape(groups) != (n,):
        raise ValueError(f"groups: expected [{n}], got {np.shape(groups)}")
    _, first, group, counts = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    room = np.diff(cuts, prepend=0, append=n)
    part = np.zeros(len(first), dtype=np.int64)
    # Of groups of one this is the split without groups.
    for g in np.argsort(np.argsort(order)[first]).tolist():
        fits = np.flatnonzero(room >= counts[g])
        part[g] = fits[0] if len(fits) else room.argmax()
        room[part[g]] -= counts[g]
    cause = f"; they are {len(first):,} different ones, which are not split" if len(first) < n else ""
    return named([np.flatnonzero(part[group] == p) for p in range(len(PARTS))], sizes, cause)


def column_split(labels: Sequence[object], rows: Sequence[int] | None = None) -> SplitIndex:
    """The split of a column of the labels train, valid (or val, validation) and test, in any case.

    Args:
        labels: A label for each item.
        rows: Data rows of the labels for messages, counted from 0; default their positions.

    Returns as :func:`random_split`, but a part may be empty.

    Raises:
        ValueError: A label is something else; names its data row.
    """
    labels = list(labels)
    names = np.array([_LABELS.get(str(label).strip().lower(), "") for label in labels], dtype="U5")
    unknown = np.flatnonzero(names == "")
    if len(unknown):
        found = f"{labels[unknown[0]]!r} ({len(unknown):,} such rows)"
        expected = "a split label train, valid (or val) or test"
        row = unknown[0] if rows is None else rows[unknown[0]]
        raise ValueError(f"data row {row + 1}: expected {expected}, got {found}")
    return {part: np.flatnonzero(names == part) for part in PARTS}


def largest_first(groups: Sequence[Sequence[int]], sizes: Sizes, kind: str, largest: str) -> SplitIndex:
    """Fill train, then valid, then test with whole groups, OGB's way.

    The largest group comes first, of equal ones the one that begins later; a group that would overfill valid
    too goes to test. Nothing about it is random.

    Args:
        groups: Positions of each group, ascending; together 0 … n−1.
        sizes: Fractions of the parts.
        kind: What the split is called in messages.
        largest: What the largest group is called.

    Returns and raises as :func:`random_split`; logs a warning of parts far from their sizes.
    """
    check_sizes(sizes)
    n, held = sum(map(len, groups)), max(map(len, groups), default=0)
    cause = (
        f"the largest group, {largest}, holds {held:,} of {n:,} ({held / max(n, 1):.0%}), and groups are not "
        "split"
    )
    # The published sets depend on the rounding of these two products.
    train_end = sizes[0] * n
    valid_end = (sizes[0] + sizes[1]) * n
    train, valid, test = parts = list[int](), list[int](), list[int]()
    for group in sorted(groups, key=lambda group: (len(group), group[0]), reverse=True):
        if len(train) + len(group) <= train_end:
            train += group
        elif len(train) + len(valid) + len(group) <= valid_end:
            valid += group
        else:
            test += group
    result = named(parts, sizes, f"; {cause}")
    tell_sizes(result, sizes, kind, cause)
    return result


def tell_sizes(parts: SplitIndex, sizes: Sizes, kind: str, cause: str) -> None:
    """Warn of parts that are far from their sizes."""
    counts = [len(part) for part in parts.values()]
    wanted = [size * sum(counts) for size in sizes]
    if any(abs(count - size) > _FAR * sum(counts) for count, size in zip(counts, wanted, strict=True)):
        found, asked = (" / ".join(f"{count:,.0f}" for count in each) for each in (counts, wanted))
        logger.warning(
            f"{kind} split: {found} molecules in train / valid / test, {asked} were asked for: {cause}"
        )


def check_sizes(sizes: Sizes, name: str = "split sizes") -> None:
    """Raise a ``ValueError`` that says ``name`` unless ``sizes`` are three fractions that sum to 1."""
    if len(sizes) != len(PARTS) or min(sizes) < 0 or not np.isclose(sum(sizes), 1.0):
        expected = "three fractions (train, valid, test) that sum to 1"
        raise ValueError(f"{name}: expected {expected}, got {tuple(sizes)}")


def named(parts: Sequence[Sequence[int] | np.ndarray], sizes: Sizes, cause: str = "") -> SplitIndex:
    """Parts by their names, sorted; one that is empty and should not be is an error, with its cause."""
    result: SplitIndex = {}
    for name, size, part in zip(PARTS, sizes, parts, strict=True):
        if size > 0 and not len(part):
            given = f"{sum(map(len, parts)):,} items at sizes {tuple(sizes)} (0: without it)"
            raise ValueError(f"the {name} part of the split is empty: {given}{cause}")
        result[name] = np.sort(np.asarray(part, dtype=np.int64))
    return result
