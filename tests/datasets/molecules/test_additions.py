"""What stands beside the codes of atoms: rings, Morgan fingerprints, descriptors."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem, rdBase
from rdkit.Chem import Descriptors, rdFingerprintGenerator

from tests.datasets.molecules.test_smiles import DIVERSE, RARE
from wlkernelnn.datasets import featurize
from wlkernelnn.datasets.molecules import smiles as smiles_module
from wlkernelnn.datasets.molecules.additions import (
    COLUMNS,
    descriptor_names,
    descriptors,
    morgan_counts,
    pharmacophores,
    ring_counts,
)


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


def test_values_are_rdkits() -> None:
    molecule = Chem.MolFromSmiles("CC(=O)Oc1ccccc1C(=O)O")
    values = descriptors(molecule)
    assert (values.shape, values.dtype) == ((len(descriptor_names()),), np.float32)
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
    for length, large in ((32, False), (40, True)):
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


def test_paths_of_huge_molecules_are_not_counted() -> None:
    of_paths = {"Chi2n", "Chi4v", "Kappa2", "Kappa3", "Phi"}
    names = [name for name, _ in Descriptors.descList if name in {*of_paths, "Chi1n"}]
    at_most, more = (descriptors(Chem.MolFromSmiles("C" * n), names) for n in (400, 401))
    assert at_most.all()
    assert {name for name, value in zip(names, more, strict=True) if not value} == of_paths


def test_pharmacophores_are_codes_of_atoms() -> None:
    smiles = ["CC(=O)[O-]", "c1ccccc1N", "C", "BrCCN(C)C"]
    graphs, _ = featurize(smiles, features="ogb+invariants+rings")
    for graph, text in zip(graphs, smiles, strict=True):
        assert graph.x[:, -1].tolist() == pharmacophores(Chem.MolFromSmiles(text)), text
    # A bit each for donor, acceptor, aromatic, halogen, basic, acidic.
    assert graphs[1].x[:-1, -1].tolist() == [4] * 6
    assert graphs[3].x[:, -1].tolist() == [8, 0, 0, 2 + 16, 0, 0]


def test_quick_descriptors_are_some_of_all() -> None:
    names = descriptor_names("descriptors")
    assert 150 < len(names) < len(descriptor_names())
    assert {"MolLogP", "TPSA", "fr_phenol"} <= {*names}
    assert not any("EState" in name or "Ipc" in name for name in names)
    (graph,), _ = featurize(["CC(=O)Oc1ccccc1C(=O)O"], features="ogb+descriptors")
    everything = dict(zip(descriptor_names(), descriptors(Chem.MolFromSmiles(graph.smiles)), strict=True))
    assert graph.graph_x[0].tolist() == [everything[name] for name in names]


def test_descriptors_do_not_depend_on_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smiles_module, "CHUNK", 4)
    smiles = ["CCO", "c1ccccc1N", "C1CC1"] * 3
    here, _ = featurize(smiles, features="ogb+descriptors", num_workers=0)
    there, _ = featurize(smiles, features="ogb+descriptors", num_workers=2)
    assert here.digest() == there.digest()
