from __future__ import annotations

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from wlkernelnn.datasets.molecules.morgan import morgan_counts


def test_counts_are_rdkits() -> None:
    molecule = Chem.MolFromSmiles("Oc1ccccc1CCCCCC")
    counts = morgan_counts(molecule)
    assert (counts.shape, counts.dtype) == ((2048,), np.uint8)
    assert counts.max() > 1  # bits would be 0 and 1
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    expected = generator.GetCountFingerprint(molecule).GetNonzeroElements()
    assert {int(i): int(counts[i]) for i in counts.nonzero()[0]} == expected


def test_more_than_a_byte_holds() -> None:
    """The chain's inner atoms are alike: 296, at 255."""
    counts = morgan_counts(Chem.MolFromSmiles("C" * 300))
    assert counts.max() == 255
    assert sorted(counts[counts > 0].tolist())[:3] == [2, 2, 2]
