"""Train, validation and test sets: random, by scaffold, or as a column of the table says."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from wlkernelnn.utils.checks import check_one_of

from .packed import PackedGraphs
from .perception import FIXED

logger = logging.getLogger("wlkernelnn")

PARTS = ("train", "valid", "test")
SplitIndex = dict[str, np.ndarray]
SplitKind = Literal["random", "scaffold", "flat_scaffold"]
Sizes = tuple[float, float, float]

# Of all molecules: a part that is so far from its size is told.
_FAR = 0.05
_LABELS = {"train": "train", "valid": "valid", "val": "valid", "validation": "valid", "test": "test"}


def random_split(n: int, sizes: Sizes = (0.8, 0.1, 0.1), seed: int = 0) -> SplitIndex:
    """Split 0 … n−1 at random; the same ``seed`` gives the same split.

    Returns:
        ``{"train": …, "valid": …, "test": …}``, sorted int64 positions.

    Raises:
        ValueError: ``sizes`` are not fractions that sum to 1, or leave a part without items.
    """
    check_sizes(sizes)
    order = np.random.default_rng(seed).permutation(n)
    cuts = np.rint(np.cumsum(sizes[:2]) * n).astype(np.int64)
    return _named(np.split(order, cuts), sizes)


def scaffolds(smiles: Sequence[str], chirality: bool = True) -> list[str]:
    """Bemis-Murcko scaffold of every molecule as SMILES; ``""`` for acyclic molecules.

    Molecules that RDKit cannot read, or cannot cut, count as acyclic (so does the published ogbg-molhiv set).
    With ``chirality``, scaffolds that differ in their stereochemistry alone are two.
    """
    with rdBase.BlockLogs(), FIXED:
        return [_scaffold(text, chirality) for text in smiles]


def scaffold_split(
    smiles: Sequence[str], sizes: Sizes = (0.8, 0.1, 0.1), chirality: bool = True
) -> SplitIndex:
    """Split molecules so that no scaffold lies in two parts: OGB's recipe or, without chirality, DeepChem's.

    Molecules with the same Bemis-Murcko scaffold (:func:`scaffolds`) form a group; all acyclic molecules are
    one group. The groups, largest first and of equal ones the one that begins later first, fill train, then
    valid; a group that would overfill valid too goes to test. Equals the published index sets of
    ogbg-molesol, -molfreesolv and -molbbbp. Nothing about it is random, and no molecule is left out.

    OGB's scaffolds have chirality: stereoisomers may then lie in two parts. Without it they stay together.

    Returns and raises as :func:`random_split` (a part stays empty where one scaffold holds most molecules);
    parts far from their sizes are told, with the largest group.
    """
    check_sizes(sizes)
    groups: dict[str, list[int]] = defaultdict(list)
    for position, scaffold in enumerate(scaffolds(smiles, chirality)):
        groups[scaffold].append(position)
    ordered = sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True)
    largest = max(groups, key=lambda scaffold: len(groups[scaffold]), default="")
    held = len(groups[largest])
    cause = (
        f"the largest group, {f'of scaffold {largest}' if largest else 'of acyclic molecules'}, holds "
        f"{held:,} of {len(smiles):,} ({held / max(len(smiles), 1):.0%}), and groups are not split"
    )

    # The published sets depend on the rounding of these two products.
    train_end = sizes[0] * len(smiles)
    valid_end = (sizes[0] + sizes[1]) * len(smiles)
    train, valid, test = parts = list[int](), list[int](), list[int]()
    for group in ordered:
        if len(train) + len(group) <= train_end:
            train += group
        elif len(train) + len(valid) + len(group) <= valid_end:
            valid += group
        else:
            test += group
    result = _named(parts, sizes, f"; {cause}")
    wanted = [size * len(smiles) for size in sizes]
    if any(abs(len(part) - size) > _FAR * len(smiles) for part, size in zip(parts, wanted, strict=True)):
        found, asked = (
            " / ".join(f"{count:,.0f}" for count in counts) for counts in (map(len, parts), wanted)
        )
        logger.warning(
            f"scaffold split: {found} molecules in train / valid / test, {asked} were asked for: {cause}"
        )
    return result


def column_split(labels: Sequence[object]) -> SplitIndex:
    """The split of a column of the labels train, valid (or val, validation) and test, in any case.

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
        raise ValueError(f"data row {unknown[0] + 1}: expected {expected}, got {found}")
    return {part: np.flatnonzero(names == part) for part in PARTS}


def split(
    data: PackedGraphs, kind: SplitKind = "random", sizes: Sizes = (0.8, 0.1, 0.1), seed: int = 0
) -> SplitIndex:
    """Split a packed store (or a view on one): positions in ``data``.

    Args:
        data: The molecules.
        kind: ``"random"`` (:func:`random_split`), ``"scaffold"`` (:func:`scaffold_split`, where ``seed`` has
            no effect) or ``"flat_scaffold"``, that without chirality.
        sizes, seed: As there.

    Raises:
        ValueError: Unknown ``kind``, bad ``sizes``, or a scaffold split of graphs without SMILES.
    """
    check_one_of("split", kind, get_args(SplitKind))
    if kind == "random":
        return random_split(len(data), sizes, seed)
    if len(data.smiles) != len(data):
        raise ValueError("a scaffold split needs SMILES; these graphs have none")
    return scaffold_split(data.smiles, sizes, chirality=kind == "scaffold")


def _scaffold(smiles: str, chirality: bool) -> str:
    try:
        return MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(smiles), includeChirality=chirality) or ""
    except (RuntimeError, ValueError):  # no molecule, or one that RDKit cannot cut
        return ""


def check_sizes(sizes: Sizes, name: str = "split sizes") -> None:
    """Raise a ``ValueError`` that says ``name`` unless ``sizes`` are three fractions that sum to 1."""
    if len(sizes) != len(PARTS) or min(sizes) < 0 or not np.isclose(sum(sizes), 1.0):
        expected = "three fractions (train, valid, test) that sum to 1"
        raise ValueError(f"{name}: expected {expected}, got {tuple(sizes)}")


def _named(parts: Sequence[Sequence[int] | np.ndarray], sizes: Sizes, cause: str = "") -> SplitIndex:
    result: SplitIndex = {}
    for name, size, part in zip(PARTS, sizes, parts, strict=True):
        if size > 0 and not len(part):
            given = f"{sum(map(len, parts)):,} molecules at sizes {tuple(sizes)}"
            raise ValueError(f"the {name} part of the split is empty: {given}{cause}")
        result[name] = np.sort(np.asarray(part, dtype=np.int64))
    return result
