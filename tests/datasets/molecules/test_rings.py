"""Ring counts against counting by hand, and that numbering does not matter."""

from __future__ import annotations

import numpy as np
from rdkit import Chem, rdBase

from tests.datasets.molecules.test_featurize import DIVERSE
from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.molecules.rings import COLUMNS, ring_counts


def test_rings_are_counted_by_size() -> None:
    """A triangle and a square share atom 2; a ring of nine has atoms 4 … 12; four squares meet at atom 13."""
    rings = [[0, 1, 2], [2, 3, 4, 5], list(range(4, 13)), *[[13, 14, 15, 16]] * 4]
    counts = ring_counts(np.array([*map(len, rings)]), np.concatenate(rings), 18)
    assert counts.dtype == np.uint8
    assert COLUMNS[0] == "rings_of_3"
    expected = {0: [1, 0], 2: [1, 1], 3: [0, 1], 13: [0, 3], 17: [0, 0]}
    assert {atom: counts[atom, :2].tolist() for atom in expected} == expected
    assert counts[4].tolist() == [0, 1, 0, 0, 0, 0, 1]
    assert counts[:, 2:6].sum() == 0


def test_no_rings() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert ring_counts(none, none, 2).tolist() == [[0] * 7] * 2
    assert ring_counts(none, none, 0).shape == (0, 7)


def test_an_atom_has_its_rings_wherever_it_is_numbered() -> None:
    cages = ["C12C3C4C1C5C4C3C25", "C1C2CC3CC1CC(C2)C3", "C1CC2CCC1C2", "c1cc2ccc3cccc4ccc(c1)c2c34"]
    generator = np.random.default_rng(0)
    for smiles in [*DIVERSE, *cages]:
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(smiles)
        order = generator.permutation(molecule.GetNumAtoms()).tolist()
        other = Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False)
        (one, two), _ = featurize([smiles, other], features="ogb+rings")
        # Whether an atom is called clockwise depends on its number.
        assert sorted(one.x[:, 2:].tolist()) == sorted(two.x[:, 2:].tolist()), smiles
