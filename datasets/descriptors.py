"""RDKit's descriptors of molecules."""

from __future__ import annotations

from typing import Any

import numpy as np
from rdkit import Chem


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
        molecule has no value, and at most what a float32 holds.
    """
    found = _known().CalcMolDescriptors(molecule, missingVal=0.0, silent=True)
    most = float(np.finfo(np.float32).max)
    values = np.array([found[name] for name, _ in _known().descList], dtype=np.float64)
    return np.nan_to_num(values, nan=0.0, posinf=most, neginf=-most).clip(-most, most).astype(np.float32)


def _known() -> Any:
    # It takes a while to import, which only who wants descriptors is to wait for.
    from rdkit.Chem import Descriptors

    return Descriptors
