"""Atom-map numbers are labels: molecules with them are the same molecules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rdkit import Chem

from wlkernelnn.datasets import featurize, molecules_from, scaffolds, shared_molecules
from wlkernelnn.datasets.chemistry.maps import unmapped
from wlkernelnn.datasets.splits.identity import molecule_ids

PLAIN = ["CC(C)O", "Cc1ccccc1", "C[C@H](N)C(=O)O", "F/C=C/F", "OC1CCC(CC1)c1cc[nH]c1", "CC(=O)[O-].[Na+]"]


def mapped(smiles: str) -> str:
    molecule = Chem.MolFromSmiles(smiles)
    for atom in molecule.GetAtoms():  # type: ignore[no-untyped-call]
        atom.SetAtomMapNum(atom.GetIdx() + 1)
    return Chem.MolToSmiles(molecule, canonical=False)


MAPPED = [mapped(smiles) for smiles in PLAIN]


def test_only_maps_go() -> None:
    assert unmapped("[CH3:1][13CH2:22][O-:3]") == "[CH3][13CH2][O-]"
    assert unmapped("c1:c:c:c:c:c:1") == "c1:c:c:c:c:c:1"
    data, rejects = featurize(["[CH3:1:2]C", "[CH3:1]C"], num_workers=0)  # no SMILES has two
    assert (data.smiles, [reject.row for reject in rejects]) == (["[CH3:1]C"], [0])


@pytest.mark.parametrize("features", ["ogb", "ogb+invariants", "ogb+rdkit", "ogb+morgan"])
@pytest.mark.parametrize("num_workers", [0, 1])
def test_codes_and_descriptors_are_the_same(features: str, num_workers: int) -> None:
    written = [unmapped(smiles) for smiles in MAPPED]
    one, other = (
        featurize(each, features=features, num_workers=num_workers)[0] for each in (MAPPED, written)
    )
    for name, values in vars(one.arrays).items():
        if not name.startswith("smiles"):
            torch.testing.assert_close(values, getattr(other.arrays, name), equal_nan=True)
    assert one.smiles == MAPPED


def test_they_are_one_molecule_for_splits() -> None:
    assert np.array_equal(molecule_ids(PLAIN), molecule_ids(MAPPED))
    assert scaffolds(PLAIN) == scaffolds(MAPPED)
    split = {"train": np.arange(6), "test": np.arange(6, 12)}
    assert "6 molecules of the test part" in shared_molecules([*PLAIN, *MAPPED], split)
    data = molecules_from(
        [*PLAIN, *MAPPED], np.arange(12.0), split="random", split_sizes=(0.4, 0.3, 0.3), cache=False
    )
    assert data.split_idx is not None
    part = {int(row): name for name, rows in data.split_idx.items() for row in rows}
    assert all(part[row] == part[row + 6] for row in range(6))


def test_standard_forms_are_without() -> None:
    forms = (featurize(each, features="ogb+standardize")[0].smiles for each in (PLAIN, MAPPED))
    assert next(forms) == next(forms)
