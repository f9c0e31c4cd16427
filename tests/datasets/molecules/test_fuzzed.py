"""SMILES cut, joined and changed at random: no row is lost, and codes are a molecule's own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from rdkit import Chem, rdBase

from tests.datasets.molecules.test_smiles import DIVERSE, RARE
from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.molecules.chunks import featurize_chunk
from wlkernelnn.datasets.molecules.features import Features, get_features

_PIECES = [
    *"CNOPSFI*()[]=#-+@/\\1234%.cnos~$:HBr",
    "[nH]",
    "[*:1]",
    "[C@@H]",
    "->",
    "C=*",
    "*C*",
    "[Fe+2]",
    "[13C]",
]


def mutated(number: int, seed: int = 0) -> list[str]:
    """SMILES of known molecules, each with up to three changes."""
    draw = random.Random(seed)
    known = [*DIVERSE, *(text for text in RARE if len(text) < 100), *regression_set().smiles]
    result = []
    for _ in range(number):
        text = draw.choice(known)
        for _ in range(draw.randint(0, 3)):
            place = draw.randrange(len(text) + 1)
            until = min(len(text), place + draw.choice([0, 1, 1, 4]))
            text = text[:place] + draw.choice(["", *_PIECES, draw.choice(known)[:8]]) + text[until:]
        result.append(text)
    return result


def columns_of_all() -> Features:
    """All columns of codes that there are, as one set."""
    sets = [get_features(name) for name in ("ogb+invariants", "duvenaud", "lei")]
    atom, bond = ({c.name: c for each in sets for c in getattr(each, kind)} for kind in ("atom", "bond"))
    return Features(name="all", atom=(*atom.values(),), bond=(*bond.values(),))


def check(smiles: Sequence[str]) -> None:
    """Every code in company is what RDKit's objects say of the molecule alone."""
    features = columns_of_all()
    part, reasons = featurize_chunk(smiles, features)
    kept = [text for i, text in enumerate(smiles) if i not in reasons]
    assert all(reasons.values())
    assert len(kept) == len(part["num_nodes"])
    codes = np.split(part["node_table"][part["node_type"]], np.cumsum(part["num_nodes"])[:-1])
    bonds = np.split(part["edge_type"], np.cumsum(part["num_edges"])[:-1])
    wrong = []
    with rdBase.BlockLogs():
        for text, of_atoms, of_edges in zip(kept, codes, bonds, strict=True):
            molecule = Chem.MolFromSmiles(text)
            expected = [features.atom_codes(atom) for atom in molecule.GetAtoms()]
            of_bonds = {frozenset((b.GetBeginAtomIdx(), b.GetEndAtomIdx())): b for b in molecule.GetBonds()}
            edges = [
                features.bond_code(of_bonds[frozenset((atom.GetIdx(), i))])
                for atom in molecule.GetAtoms()
                for i in sorted(neighbour.GetIdx() for neighbour in atom.GetNeighbors())
            ]
            if of_atoms.tolist() != expected or of_edges.tolist() != edges:
                wrong.append(text)
    assert not wrong


def test_a_valence_is_not_that_of_a_neighbouring_row() -> None:
    check(["C*C", "C=*C", "*", "C#*", "C" * 300, "C=" + "C" * 300, "C" * 300 + "#N"])


def test_fuzzed_molecules_have_codes_of_their_own() -> None:
    check(mutated(600))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_many_fuzzed_molecules_have_codes_of_their_own(seed: int) -> None:
    check(mutated(3000, seed))


def test_no_row_is_lost() -> None:
    smiles = mutated(600)
    data, rejects = featurize(smiles, num_workers=0)
    assert sorted([*data.row.tolist(), *(reject.row for reject in rejects)]) == [*range(len(smiles))]
    assert 100 < len(rejects) < 500


def test_additions_are_those_of_the_molecule_alone() -> None:
    name = "lei+invariants+rings+ring_nodes+rw4+morgan"
    data, _ = featurize([*DIVERSE, *RARE, *mutated(20)], features=name, num_workers=0)
    for i, text in enumerate(data.smiles):
        (alone,) = featurize([text], features=name, num_workers=0)[0]
        for key, value in alone:
            assert key == "smiles" or np.array_equal(value, data.get(i)[key]), (text, key)


@pytest.mark.parametrize(
    "switch", ["UseLegacyStereoPerception", "UseLegacyRingFinding", "AllowNontetrahedralChirality"]
)
def test_features_do_not_depend_on_switches_of_rdkit(switch: str) -> None:
    if not hasattr(Chem, f"Set{switch}"):
        pytest.skip(f"RDKit {rdBase.rdkitVersion} lacks it")
    smiles = [*DIVERSE, "C[C@H]1CC[C@@H](C)CC1", "C/C=C/1CC[C@H](O)CC1"]
    before = getattr(Chem, f"Get{switch}")()
    expected = featurize(smiles, num_workers=0)[0]
    try:
        getattr(Chem, f"Set{switch}")(not before)
        found = featurize(smiles, num_workers=0)[0]
        assert getattr(Chem, f"Get{switch}")() is not before  # as the user has it
    finally:
        getattr(Chem, f"Set{switch}")(before)
    for name, values in vars(expected.arrays).items():
        assert values.equal(getattr(found.arrays, name)), name
