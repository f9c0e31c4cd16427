from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from sklearn.base import clone
from torch_geometric.data import Data

from tests.datasets.molecules.test_smiles import DIVERSE
from wlkernelnn.datasets import featurize
from wlkernelnn.kernels import MoleculeKernel, WLSubtreeKernel
from wlkernelnn.testing import assert_psd


def test_is_the_mean_of_its_parts() -> None:
    kernel = MoleculeKernel()
    mean = sum(part(DIVERSE) for part in kernel.parts) / len(kernel.parts)
    assert len(kernel.parts) == 6
    np.testing.assert_allclose(kernel(DIVERSE), mean, rtol=1e-14)
    packed, _ = featurize(DIVERSE, features="ogb+invariants+rings+morgan")
    np.testing.assert_allclose(kernel(packed[:5], packed), mean[:5], rtol=1e-14)
    np.testing.assert_array_equal(kernel.diag(DIVERSE), 1)
    assert_psd(kernel, DIVERSE)
    assert clone(kernel) == kernel


@pytest.mark.parametrize("radius", [0, 2, 3])
def test_colours_of_the_coding_ecfp_are_morgan_environments(radius: int) -> None:
    # RDKit gives an atom without bonds its first environment only, and counts hydrogens that are atoms of
    # their own, such as deuterium, among those of their neighbour.
    known = [(text, Chem.MolFromSmiles(text)) for text in DIVERSE]
    smiles = [
        text
        for text, molecule in known
        if all(atom.GetDegree() and atom.GetAtomicNum() > 1 for atom in molecule.GetAtoms())
    ]
    assert len(smiles) > 25
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, includeRedundantEnvironments=True)
    prints = [
        generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text)).GetNonzeroElements() for text in smiles
    ]
    gram = [[sum(a.get(key, 0) * count for key, count in b.items()) for b in prints] for a in prints]
    np.testing.assert_array_equal(WLSubtreeKernel(radius, coding="ecfp")(smiles), gram)


def test_codings_need_their_columns() -> None:
    plain, _ = featurize(["CCO"])
    WLSubtreeKernel(coding="ogb")(plain)
    with pytest.raises(ValueError, match=r"coding 'ecfp' .*features='ogb\+invariants'; got .* 'ogb'"):
        MoleculeKernel()(plain)
    with pytest.raises(ValueError, match=r"coding 'element' is one of molecules.*features of their own"):
        WLSubtreeKernel(coding="element")([Data(x=plain[0].x, edge_index=plain[0].edge_index)])
