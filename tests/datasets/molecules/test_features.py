"""The feature sets: their tables, and edge codes as mixed-radix numbers."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from rdkit import Chem

from wlkernelnn.datasets.molecules.additions import COLUMNS, descriptor_names
from wlkernelnn.datasets.molecules.features import FEATURES, get_features


def test_ogb_sizes_are_those_of_ogb() -> None:
    features = get_features("ogb")
    theirs = pytest.importorskip("ogb.utils.features")
    assert features.node_dims == tuple(theirs.get_atom_feature_dims())
    assert features.edge_dims == tuple(theirs.get_bond_feature_dims())
    assert (len(features.node_columns), len(features.edge_columns)) == (9, 3)
    assert features.num_edge_types == 60


@pytest.mark.parametrize(
    ("name", "element", "third"), [("duvenaud", 44, {"num_h": 5}), ("lei", 63, {"explicit_valence": 6})]
)
def test_sizes_are_those_of_the_paper_and_its_release(name: str, element: int, third: dict[str, int]) -> None:
    features = get_features(name)
    of_atom = {"element": element, "degree": 6, **third, "implicit_valence": 6, "is_aromatic": 2}
    assert dict(zip(features.node_columns, features.node_dims, strict=True)) == of_atom
    assert dict(zip(features.edge_columns, features.edge_dims, strict=True)) == {
        "bond_type": 5,
        "is_conjugated": 2,
        "is_in_ring": 2,
    }


def test_the_release_has_82_values() -> None:
    assert sum(get_features("lei").node_dims) - 1 == 82  # a flag is one column there


@pytest.mark.parametrize("name", sorted(FEATURES))
def test_values_of_a_column_are_distinct(name: str) -> None:
    features = get_features(name)
    for column in (*features.atom, *features.bond):
        assert len(set(column.values)) == len(column.values), column.name


@pytest.mark.parametrize(
    ("name", "kind"), [("duvenaud", np.asarray), ("lei", torch.tensor), ("ogb", torch.tensor)]
)
def test_edge_codes_count_the_columns_in_order(name: str, kind: type) -> None:
    features = get_features(name)
    columns = kind(list(itertools.product(*map(range, features.edge_dims))))
    codes = features.encode_edge(columns)
    assert type(codes) is type(columns)
    assert codes.tolist() == list(range(features.num_edge_types))
    assert features.decode_edge(codes).tolist() == columns.tolist()
    grid = codes.reshape(2, -1)
    assert tuple(features.decode_edge(grid).shape) == (*grid.shape, len(features.edge_dims))


def test_stored_codes_decode_to_int64() -> None:
    features = get_features("ogb")
    for codes in (np.array([59], np.uint8), torch.tensor([59], dtype=torch.uint8)):
        columns = features.decode_edge(codes)
        assert columns.tolist() == [[4, 5, 1]]
        assert columns.dtype in (np.int64, torch.int64)


def test_codes_out_of_range_are_errors() -> None:
    features = get_features("ogb")
    with pytest.raises(ValueError, match=r"edge code lies outside \[0, 60\)"):
        features.decode_edge(np.array([60]))
    with pytest.raises(ValueError, match=r"outside its range \(5, 6, 2\)"):
        features.encode_edge(torch.tensor([[0, 6, 0]]))
    with pytest.raises(ValueError, match=r"expected the 3 edge columns .* got shape \(1, 2\)"):
        features.encode_edge(np.array([[0, 0]]))


def test_unknown_features_are_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'morgan'.*'duvenaud', 'lei', 'ogb'"):
        get_features("morgan")


@pytest.mark.parametrize(
    ("name", "base", "num_node_values", "num_graph_values"),
    [
        ("ogb", "ogb", 0, 0),
        ("duvenaud+rw64", "duvenaud", 64, 0),
        ("duvenaud+morgan", "duvenaud", 0, 2048),
        ("ogb+rw16+morgan", "ogb", 16, 2048),
        ("ogb+rw2+rdkit", "ogb", 2, len(descriptor_names())),
        ("ogb+descriptors", "ogb", 0, len(descriptor_names("descriptors"))),
    ],
)
def test_additions_leave_the_codes_as_they_are(
    name: str, base: str, num_node_values: int, num_graph_values: int
) -> None:
    features, codes = get_features(name), get_features(base)
    assert features.name == name
    assert (features.num_node_values, features.num_graph_values) == (num_node_values, num_graph_values)
    assert (features.atom, features.bond, features.node_dims) == (codes.atom, codes.bond, codes.node_dims)


@pytest.mark.parametrize("name", ["ogb+rings", "duvenaud+rings+rw16+morgan"])
def test_ring_counts_are_codes_behind_the_others(name: str) -> None:
    features, codes = get_features(name), get_features(name.split("+")[0])
    assert (features.atom, features.bond) == (codes.atom, codes.bond)
    assert features.node_columns == (*codes.node_columns, *COLUMNS)
    assert features.node_dims == (*codes.node_dims, *[4] * 7)


@pytest.mark.parametrize(
    "name",
    [
        *("", "ogb+foo", "zinc+rw16", "OGB", "ogb+rw0", "ogb+rw65", "ogb+rw16 ", "ogb+morgan+rdkit"),
        *("ogb+rw16+rings", "ogb+rings+invariants", "ogb+ring_nodes+rings", "ogb+ring_node"),
    ],
)
def test_unknown_additions_are_named_with_the_known_ones(name: str) -> None:
    expected = (
        "'duvenaud', 'lei', 'ogb'], followed or not by '+invariants', '+rings', '+ring_nodes', '+rw1' … "
        "'+rw64' and '+morgan', '+descriptors' or '+rdkit', and '+standardize', "
        "as in 'ogb+rings+rw16+morgan'"
    )
    with pytest.raises(
        ValueError, match=re.escape(f"unknown features {name!r}, ") + ".*" + re.escape(expected)
    ):
        get_features(name)


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("C", ["C", "0", "4", "4", "False"]),
        ("[CH4]", ["C", "0", "4", "0", "False"]),  # hydrogens in brackets are not implicit
        ("S(F)(F)(F)(F)(F)F", ["S", "5", "0", "0", "False"]),  # 6 neighbours: the last code
        ("[U]", ["Unknown", "0", "0", "0", "False"]),
        ("*", ["Unknown", "0", "0", "0", "False"]),
        ("c1ccccc1", ["C", "2", "1", "1", "True"]),
    ],
)
def test_duvenaud_codes_of_the_first_atom(smiles: str, expected: list[str]) -> None:
    features = get_features("duvenaud")
    codes = features.atom_codes(Chem.MolFromSmiles(smiles).GetAtomWithIdx(0))
    assert [column.values[code] for column, code in zip(features.atom, codes, strict=True)] == expected


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC", ["C", "1", "1", "3", "False"]),
        ("C", ["C", "0", "6", "4", "False"]),  # explicit valence 0 is none of 1 to 6: the last code
        ("S(F)(F)(F)(F)(F)F", ["S", "5", "6", "0", "False"]),
        ("[U]", ["U", "0", "6", "0", "False"]),
        ("*", ["unknown", "0", "6", "0", "False"]),
        ("c1ccccc1", ["C", "2", "3", "1", "True"]),
    ],
)
def test_lei_codes_of_the_first_atom(smiles: str, expected: list[str]) -> None:
    features = get_features("lei")
    codes = features.atom_codes(Chem.MolFromSmiles(smiles).GetAtomWithIdx(0))
    assert [column.values[code] for column, code in zip(features.atom, codes, strict=True)] == expected


@pytest.mark.parametrize("name", ["duvenaud", "lei"])
def test_implicit_valence_is_that_of_rdkit(name: str) -> None:
    column = get_features(name).atom[3]
    molecule = Chem.MolFromSmiles("CC(=O)[O-].[NH4+].c1cc[nH]c1.[CH2]C.O=S(=O)(O)O.[13CH3]N.[Na+]")
    for atom in molecule.GetAtoms():
        assert column.code(atom) == atom.GetValence(Chem.ValenceType.IMPLICIT)


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC", ["SINGLE", "False", "False"]),
        ("C=CC=C", ["DOUBLE", "True", "False"]),
        ("C1CC1", ["SINGLE", "False", "True"]),
        ("c1ccccc1", ["AROMATIC", "True", "True"]),
        ("[NH3]->[Pt]", ["other", "False", "False"]),
    ],
)
def test_duvenaud_code_of_the_first_bond(smiles: str, expected: list[str]) -> None:
    features = get_features("duvenaud")
    code = features.bond_code(Chem.MolFromSmiles(smiles).GetBondWithIdx(0))
    columns = features.decode_edge(np.array(code)).tolist()
    assert [column.values[value] for column, value in zip(features.bond, columns, strict=True)] == expected


@pytest.mark.parametrize("name", ["ogb+invariants", "lei+invariants+rings+rw4+rdkit"])
def test_invariants_are_codes_around_the_ring_counts(name: str) -> None:
    features, codes = get_features(name), get_features(name.split("+")[0])
    rings = COLUMNS if "rings" in name else ()
    assert features.node_columns == (*codes.node_columns, "mass_difference", *rings, "pharmacophore")
    assert features.node_dims == (*codes.node_dims, 22, *[4] * len(rings), 64)


def test_an_isotope_has_its_difference_in_mass() -> None:
    column = get_features("ogb+invariants").atom[-1]
    atoms = [Chem.MolFromSmiles(text).GetAtomWithIdx(0) for text in ("C", "[13CH4]", "[14CH4]")]
    # 13.003 and 12.011 differ by less than 1, as RDKit's invariants have it.
    assert [column.values[column.code(atom)] for atom in atoms] == ["0", "0", "1"]
