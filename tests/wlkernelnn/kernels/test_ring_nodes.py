"""Kernels of molecules whose rings are nodes: brute force with networkx, and what leaves ring nodes out."""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem
from torch_geometric.data import Data

from tests.datasets.molecules.test_ring_nodes import RINGS, as_networkx
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.kernels import MoleculeKernel, PathKernel, ShortestPathKernel, WLSubtreeKernel, WLVectorizer
from wlkernelnn.kernels.flat_graphs import flat_graphs, paired
from wlkernelnn.kernels.ring_nodes import atom_shares, atoms_alone
from wlkernelnn.machines import GaussianProcess

FEATURES = "ogb+invariants+ring_nodes"
SMILES = [*RINGS, "OCC1CC1", "O=C1CCCC1", "Cc1ccncc1"]


@pytest.fixture(scope="module")
def molecules() -> PackedGraphs:
    return featurize(SMILES, features=FEATURES)[0]


def hashes(molecules: PackedGraphs, number: int, iterations: int) -> Counter[str]:
    """The colours of a molecule's nodes after 0, 1, … iterations, as networkx has them."""
    graph = as_networkx(molecules, number)
    for _, values in graph.nodes(data=True):
        values["codes"] = str(values["codes"])
    for *_, values in graph.edges(data=True):
        values["code"] = str(values["code"])
    lists = nx.weisfeiler_lehman_subgraph_hashes(
        graph, "code", "codes", iterations, digest_size=16, include_initial_labels=True
    )
    return Counter(f"{round_} {each}" for of_node in lists.values() for round_, each in enumerate(of_node))


def test_colours_are_those_of_graphs_with_ring_nodes(molecules: PackedGraphs) -> None:
    counts = [hashes(molecules, number, 2) for number in range(len(molecules))]
    expected = [[sum(one[key] * other[key] for key in one) for other in counts] for one in counts]
    np.testing.assert_array_equal(WLSubtreeKernel(2)(molecules), expected)
    least = [
        [sum((one & other).values()) / sum((one | other).values()) for other in counts] for one in counts
    ]
    np.testing.assert_allclose(WLSubtreeKernel(2, normalize="minmax")(molecules), least)


def test_features_of_new_molecules(molecules: PackedGraphs) -> None:
    vectorizer = WLVectorizer(2).fit(molecules[:10])
    np.testing.assert_array_equal(
        (vectorizer.transform(molecules[10:]) @ vectorizer.fit_transform(molecules[:10]).T).toarray(),
        WLSubtreeKernel(2)(molecules[10:], molecules[:10]),
    )


@pytest.mark.parametrize("coding", ["ogb", "element", "ecfp", "fcfp"])
def test_all_codings_tell_rings_apart(coding: str) -> None:
    def value(one: str, other: str, features: str) -> float:
        pair, _ = featurize([one, other], features=features)
        return float(WLSubtreeKernel(0, normalize="minmax", coding=coding)(pair)[0, 1])

    # The same atoms: two rings of 5 and 7 bonds, or two of 6.
    rings = "C1CC2CCCCC2C1", "C1CCC2CCCC2C1"
    assert value(*rings, "ogb+invariants") == value(*rings, FEATURES) == 1
    decalin, other = "C1CCC2CCCCC2C1", "C1CCC2CCCC2CC1"
    assert value(decalin, other, "ogb+invariants") == 1
    assert value(decalin, other, FEATURES) < 1


@pytest.mark.parametrize(
    "kernel",
    [
        *(ShortestPathKernel(normalize="minmax", coding="ecfp"), ShortestPathKernel(3, coding="fcfp")),
        *(
            PathKernel(coding="element"),
            PathKernel(1, coding="ogb"),
            PathKernel(6, normalize="cosine", coding="ogb"),
        ),
    ],
    ids=str,
)
def test_paths_and_distances_are_those_of_atoms(
    kernel: ShortestPathKernel | PathKernel, molecules: PackedGraphs
) -> None:
    plain, _ = featurize(SMILES, features="ogb+invariants")
    np.testing.assert_array_equal(kernel(molecules), kernel(plain))
    np.testing.assert_array_equal(kernel(molecules[:3], molecules[3:]), kernel(plain[:3], plain[3:]))


def test_all_columns_of_atoms_count_for_paths(molecules: PackedGraphs) -> None:
    plain, _ = featurize(SMILES, features="ogb+invariants")
    np.testing.assert_array_equal(PathKernel(3)(molecules), PathKernel(3)(plain))


def test_single_graphs_beside_a_store(molecules: PackedGraphs) -> None:
    single = [molecules[number] for number in range(4)]
    for kernel in (PathKernel(3, normalize="minmax"), ShortestPathKernel(), WLSubtreeKernel(2)):
        expected = kernel(molecules[:4], molecules)
        np.testing.assert_array_equal(kernel(single, molecules), expected)
        np.testing.assert_array_equal(kernel(molecules, single), expected.T)


def test_others_do_not_compare_with_molecules_without_ring_nodes(molecules: PackedGraphs) -> None:
    plain, _ = featurize(SMILES, features="ogb+invariants")
    with pytest.raises(ValueError, match="x cannot be compared"):
        MoleculeKernel()(molecules, plain)


@pytest.mark.parametrize("kernel", [PathKernel(4), ShortestPathKernel(), MoleculeKernel()], ids=repr)
def test_items_of_a_store_know_their_columns(
    kernel: PathKernel | ShortestPathKernel | MoleculeKernel, molecules: PackedGraphs
) -> None:
    """As scikit-learn cuts a store."""
    items = [*molecules]
    np.testing.assert_array_equal(kernel(items), kernel(molecules))
    np.testing.assert_array_equal(kernel(items[:3], items[3:]), kernel(molecules[:3], molecules[3:]))
    assert kernel(molecules, []).shape == (len(molecules), 0)
    assert kernel([], items).shape == (0, len(molecules))
    assert kernel([]).shape == (0, 0)
    np.testing.assert_array_equal(kernel(PackedGraphs.from_pyg(items)), kernel(molecules))


def test_items_with_other_columns_are_graphs_of_ones_own(molecules: PackedGraphs) -> None:
    items = [graph.clone() for graph in molecules]
    for graph in items:
        graph.x = torch.cat([graph.x[:, :1], graph.x], dim=1)
    own = [Data(x=graph.x, edge_index=graph.edge_index, edge_type=graph.edge_type) for graph in items]
    np.testing.assert_array_equal(PathKernel(3)(items), PathKernel(3)(own))
    with pytest.raises(ValueError, match="features of their own"):
        WLSubtreeKernel(coding="element")(items)
    plain, more = (featurize(SMILES, features=f"ogb{added}")[0] for added in ("", "+morgan"))
    assert WLSubtreeKernel(2)([*plain, *more]).shape == (2 * len(SMILES), 2 * len(SMILES))


def test_a_fitted_process_predicts_of_no_molecules(molecules: PackedGraphs) -> None:
    model = GaussianProcess(MoleculeKernel()).fit(molecules, np.arange(float(len(molecules))))
    assert model.predict([]).shape == (0,)


def test_the_mean_of_six(molecules: PackedGraphs) -> None:
    kernel = MoleculeKernel()
    np.testing.assert_allclose(kernel(molecules), np.mean([part(molecules) for part in kernel.parts], axis=0))
    assert np.linalg.eigvalsh(kernel(molecules)).min() > -1e-10


def test_graphs_of_atoms_alone(molecules: PackedGraphs) -> None:
    graphs, left = atoms_alone(flat_graphs(molecules))
    plain = flat_graphs(featurize(SMILES, features="ogb+invariants")[0])
    for name in ("source", "target", "node_ptr", "edge_ptr", "edge_type"):
        np.testing.assert_array_equal(getattr(graphs, name), getattr(plain, name))
    np.testing.assert_array_equal(graphs.x[:, :-1], plain.x)
    assert graphs.is_atom is None
    assert flat_graphs(molecules).is_atom[left].all()
    same, every = atoms_alone(plain)
    assert same is plain
    assert every.tolist() == [*range(len(plain.x))]


def test_atoms_share_what_their_rings_have(molecules: PackedGraphs) -> None:
    graphs, _ = paired(molecules, None)
    shares, ptr = atom_shares(graphs)
    values = np.random.default_rng(0).normal(size=(int(graphs.node_ptr[-1]), 2))
    for number, smiles in enumerate(SMILES):
        molecule = Chem.MolFromSmiles(smiles)
        own = values[graphs.node_ptr[number] : graphs.node_ptr[number + 1]]
        expected = own[: molecule.GetNumAtoms()].copy()
        rings = sorted(sorted(ring) for ring in Chem.GetSymmSSSR(molecule))
        for ring, value in zip(map(list, Chem.GetSymmSSSR(molecule)), own[len(expected) :], strict=True):
            assert sorted(ring) in rings
            expected[ring] += value / len(ring)
        np.testing.assert_allclose((shares @ values)[ptr[number] : ptr[number + 1]], expected)
    np.testing.assert_allclose((shares @ values).sum(axis=0), values.sum(axis=0))
