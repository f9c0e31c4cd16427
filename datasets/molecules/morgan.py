"""Morgan fingerprints of molecules."""

from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

# What is called ECFP4: neighbourhoods of up to two bonds.
RADIUS, SIZE = 2, 2048


def morgan_counts(molecule: Chem.Mol) -> np.ndarray:
    """How often each neighbourhood of an atom occurs (Rogers and Hahn 2010), folded to 2048 numbers.

    Returns:
        uint8 ``[SIZE]``; 255 is that often, or more often.
    """
    # To make one takes a fiftieth of the time; it does not travel to other processes.
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=SIZE)
    return np.minimum(generator.GetCountFingerprintAsNumPy(molecule), 255).astype(np.uint8)
