from __future__ import annotations

import numpy as np
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors

from tests.datasets.test_featurize import DIVERSE, RARE
from wlkernelnn.datasets.descriptors import descriptors, num_descriptors


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
