from __future__ import annotations

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors

from tests.datasets.molecules.test_featurize import DIVERSE, RARE
from wlkernelnn.datasets.molecules.descriptors import descriptors, num_descriptors


def test_values_are_rdkits() -> None:
    molecule = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    values = descriptors(molecule)
    assert (values.shape, values.dtype) == ((num_descriptors(),), np.float32)
    names = [name for name, _ in Descriptors.descList]
    assert values[names.index("MolWt")] == np.float32(Descriptors.MolWt(molecule))
    assert values[names.index("TPSA")] == np.float32(Descriptors.TPSA(molecule))
    assert values[names.index("RingCount")] == 1


def test_every_molecule_has_finite_values() -> None:
    """Ipc overflows in long chains; of single atoms and metals some values are not known."""
    with rdBase.BlockLogs():
        for smiles in [*DIVERSE, *RARE, "C" * 400, "[Na+].[Cl-]", "*", "[H][H]"]:
            assert np.isfinite(descriptors(Chem.MolFromSmiles(smiles))).all(), smiles


def test_large_molecules_have_all_but_what_is_of_pairs_of_atoms() -> None:
    names = [name for name, _ in Descriptors.descList]
    of_pairs = [
        any(part in name for part in ("Ipc", "BCUT2D_", "EState", "BalabanJ", "BertzCT")) for name in names
    ]
    assert sum(of_pairs) == 2 + 8 + 25 + 1 + 1
    for length, large in ((32, False), (60, True)):
        peptide = Chem.MolFromSmiles("CC(=O)N" + "[C@@H](C)C(=O)N" * length + "C")
        assert (peptide.GetNumAtoms() > 200) == large
        values = descriptors(peptide)
        found = Descriptors.CalcMolDescriptors(peptide, missingVal=0.0, silent=True)
        expected = np.array([found[name] for name in names]).clip(max=np.finfo(np.float32).max)
        assert values[names.index("Ipc")] == np.finfo(np.float32).max
        if large:
            assert (expected[of_pairs] != 0).sum() > 20
            expected[of_pairs] = 0
            expected[names.index("Ipc")] = np.finfo(np.float32).max
        np.testing.assert_array_equal(values, expected.astype(np.float32))
