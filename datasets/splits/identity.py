"""Which rows are the same molecule: replicates, and molecules that stand in two parts of a split."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from rdkit import Chem

from wlkernelnn.datasets.chemistry.maps import unmapped
from wlkernelnn.datasets.chemistry.perception import FIXED
from wlkernelnn.datasets.graphs.packed import PackedGraphs

from .parts import SplitIndex


def molecule_ids(smiles: Sequence[str]) -> np.ndarray:
    """A number for every molecule, uint64 ``[n]``: the same for all ways to write it as SMILES.

    It is the first 64 bits of BLAKE2b of RDKit's canonical SMILES, and depends on RDKit's version as that
    does. Atom-map numbers do not count. Stereoisomers, salts and tautomers are different molecules. A text
    that RDKit cannot read has a number of its own.
    """
    with FIXED:
        return np.array([_id(text) for text in smiles], dtype=np.uint64)


def replicates(ids: np.ndarray) -> tuple[int, int]:
    """How many molecules stand in more than one row, and in how many rows they do."""
    counts = np.unique(ids, return_counts=True)[1]
    return int((counts > 1).sum()), int(counts[counts > 1].sum())


def replicate_groups(data: PackedGraphs) -> np.ndarray | None:
    """The first row of each row's molecule, int64 ``[n]``; ``None`` if all rows are different molecules.

    Graphs without SMILES are.
    """
    if not (smiles := data.smiles):
        return None
    _, first, which = np.unique(molecule_ids(smiles), return_index=True, return_inverse=True)
    return first[which] if len(first) < len(smiles) else None


def shared_molecules(smiles: Sequence[str], split_idx: SplitIndex) -> str:
    """What to say of molecules that stand in two parts of a split; ``""`` if none does.

    Args:
        smiles: Of all molecules; none, if graphs are not molecules.
        split_idx: Positions of each part.
    """
    parts = {name: index for name, index in split_idx.items() if len(index)}
    if not len(smiles) or len(parts) < 2:
        return ""
    ids = molecule_ids(smiles)
    said = []
    for first, second in combinations(parts, 2):
        rows = ids[parts[second]]
        both = rows[np.isin(rows, ids[parts[first]])]
        if len(both):
            said.append(
                f"{len(np.unique(both)):,} molecules of the {second} part ({len(both):,} of "
                f"{len(rows):,} rows) are in the {first} part too"
            )
    return "; ".join(said)


@lru_cache(2**16)
def _id(smiles: str) -> int:
    try:
        text = Chem.MolToSmiles(Chem.MolFromSmiles(unmapped(smiles)))
    except Exception:  # no molecule, or one that RDKit cannot write
        text = f"unread {smiles}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
