"""RDKit's descriptors of molecules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rdkit import Chem

# Beyond so many atoms what RDKit computes of all pairs of atoms takes seconds, and then minutes.
_MOST_ATOMS = 200
_OF_PAIRS = ("Ipc", "BCUT2D", "EState", "BalabanJ", "BertzCT")


def descriptor_names() -> list[str]:
    """Those that this RDKit knows, in their order."""
    return [name for name, _ in _known().descList]


def num_descriptors() -> int:
    """How many this RDKit knows."""
    return len(descriptor_names())


def descriptors(molecule: Chem.Mol) -> np.ndarray:
    """Weight, surface, partial charges, counts of rings and groups, solubility by contributions, …

    Returns:
        float32 ``[num_descriptors()]``, in the order of ``rdkit.Chem.Descriptors.descList``; 0 where a
        molecule has no value, and at most what a float32 holds. Of more than 200 atoms, where they would
        take seconds to minutes, those of all pairs of atoms are not computed: information content,
        ``BCUT2D_…``, all of the EState, ``BalabanJ`` and ``BertzCT``. They are 0, but for ``Ipc``, which has
        reached that largest number before.
    """
    most = float(np.finfo(np.float32).max)
    with np.errstate(all="ignore"):
        values = np.array([_value(name, compute, molecule) for name, compute in _known().descList])
    return np.nan_to_num(values, nan=0.0, posinf=most, neginf=-most).clip(-most, most).astype(np.float32)


def _value(name: str, compute: Callable[[Chem.Mol], float], molecule: Chem.Mol) -> float:
    if molecule.GetNumAtoms() > _MOST_ATOMS and any(part in name for part in _OF_PAIRS):
        return float(np.finfo(np.float32).max) if name == "Ipc" else 0.0
    try:
        return float(compute(molecule))
    except Exception:  # of many kinds, by what a descriptor cannot deal with
        return 0.0


def _known() -> Any:
    # It takes a while to import, which only who wants descriptors is to wait for.
    from rdkit.Chem import Descriptors

    return Descriptors
