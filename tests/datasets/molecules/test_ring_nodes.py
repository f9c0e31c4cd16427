"""Rings as nodes, against RDKit's ring information and graphs made by hand with networkx."""

from __future__ import annotations

import re

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem, rdBase

from tests.datasets.molecules.test_smiles import DIVERSE, RARE
from wlkernelnn.datasets import PackedGraphs, featurize, get_features, load_molecules
from wlkernelnn.datasets.molecules import smiles as smiles_module
from wlkernelnn.datasets.molecules.ring_nodes import are_atoms, num_atoms

# Without rings, one ring, aromatic or not, fused and bridged rings, ones that share an atom, a large one,
# two molecules at once, a ring of aromatic atoms whose bonds are not all aromatic (biphenylene).
RINGS = [
    "CC",
    "C1CC1",
    "c1ccccc1",
    "c1ccc2cc3ccccc3cc2c1",
    "C1CC2CCC1CC2",
    "C1CCC2(CC1)CC2",
    "C1" + "C" * 20 + "1",
]
RINGS += ["C1CC1.c1ccsc1.[Na+]", "c1ccc2c(c1)-c1ccccc1-2", "C12C3C4C1C5C2C3C45", "c1ccc2cccc2cc1"]


def by_hand(smiles: str, of_atoms: PackedGraphs, name: str) -> nx.Graph:
    """A molecule's graph with a node for each of RDKit's rings, from the graph of its atoms."""
    features, molecule = get_features(name), Chem.MolFromSmiles(smiles)
    column = features.node_columns.index("ring_node")
    atoms = of_atoms[0]
    graph = nx.Graph()
    for atom, codes in enumerate(atoms.x.tolist()):
        graph.add_node(atom, codes=(*codes[:column], 0, *codes[column:]))
    edges = atoms.edge_index.T.tolist()
    for (begin, end), code in zip(edges, atoms.edge_type.tolist(), strict=True):
        graph.add_edge(begin, end, code=code)
    for number, ring in enumerate(map(list, Chem.GetSymmSSSR(molecule)), len(atoms.x)):
        pairs = zip(ring, [*ring[1:], ring[0]], strict=True)
        aromatic = all(molecule.GetBondBetweenAtoms(*pair).GetIsAromatic() for pair in pairs)
        kind = 1 + 2 * min(len(ring) - 3, 6) + aromatic
        codes = [0] * (len(features.node_columns) + features.num_node_values)
        codes[column] = kind
        graph.add_node(number, codes=tuple(codes))
        graph.add_edges_from(((number, atom) for atom in ring), code=features.num_edge_types - 1)
    return graph


def as_networkx(graphs: PackedGraphs, number: int) -> nx.Graph:
    graph, data = nx.Graph(), graphs[number]
    for node, codes in enumerate(data.x.tolist()):
        graph.add_node(node, codes=tuple(codes))
    for (source, target), code in zip(data.edge_index.T.tolist(), data.edge_type.tolist(), strict=True):
        assert graph.get_edge_data(source, target, {"code": code})["code"] == code
        graph.add_edge(source, target, code=code)
    return graph


def alike(one: nx.Graph, other: nx.Graph) -> bool:
    return nx.is_isomorphic(one, other, lambda a, b: a == b, lambda a, b: a == b)


@pytest.mark.parametrize(
    "name", ["ogb+ring_nodes", "duvenaud+rings+ring_nodes", "lei+invariants+ring_nodes+rw4"]
)
def test_graphs_are_those_made_by_hand(name: str) -> None:
    smiles = RINGS + DIVERSE + RARE
    graphs, rejects = featurize(smiles, features=name)
    assert rejects == []
    for number, text in enumerate(smiles):
        atoms, _ = featurize([text], features=name.replace("+ring_nodes", ""))
        found, expected = as_networkx(graphs, number), by_hand(text, atoms, name)
        # The atoms are the first nodes, in the order of the SMILES.
        size = atoms.num_nodes_per_graph[0]
        assert [found.nodes[i] for i in range(size)] == [expected.nodes[i] for i in range(size)]
        assert nx.utils.graphs_equal(found.subgraph(range(size)), expected.subgraph(range(size)))
        rings = [
            sorted((graph.nodes[v]["codes"], sorted(graph[v])) for v in range(size, len(graph)))
            for graph in (found, expected)
        ]
        assert rings[0] == rings[1]
        assert found.number_of_edges() == expected.number_of_edges()


def test_bonds_keep_their_codes_and_rings_have_their_own() -> None:
    features, codes = get_features("ogb+ring_nodes"), get_features("ogb")
    assert (features.atom, features.bond) == (codes.atom, codes.bond)
    assert features.node_columns == (*codes.node_columns, "ring_node")
    assert features.node_dims == (*codes.node_dims, 15)
    assert (features.num_edge_types, features.ring_edge) == (61, 60)
    assert features.decode_edge(np.arange(60)).tolist() == codes.decode_edge(np.arange(60)).tolist()
    assert features.decode_edge(np.array([60])).tolist() == [[5, 0, 0]]
    assert features.encode_edge(features.decode_edge(torch.arange(61))).tolist() == [*range(61)]
    with pytest.raises(ValueError, match=re.escape("outside [0, 61)")):
        features.decode_edge(np.array([61]))


@pytest.mark.parametrize("smiles", RINGS)
def test_the_order_of_atoms_does_not_matter(smiles: str) -> None:
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(smiles)
        others = [Chem.MolToSmiles(molecule, doRandom=True) for _ in range(5)]
    graphs, _ = featurize([smiles, *others], features="ogb+ring_nodes")
    first = as_networkx(graphs, 0)
    assert all(alike(first, as_networkx(graphs, number)) for number in range(1, len(graphs)))


def test_the_number_of_processes_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smiles_module, "CHUNK", 8)
    here, _ = featurize(RINGS * 3, features="ogb+ring_nodes", num_workers=0)
    there, _ = featurize(RINGS * 3, features="ogb+ring_nodes", num_workers=2)
    assert all(one.equal(vars(there.arrays)[name]) for name, one in vars(here.arrays).items())


def test_molecules_without_rings_are_as_they_were() -> None:
    plain, _ = featurize(["CCO", "C", "[Na+].[Cl-]"])
    graphs, _ = featurize(["CCO", "C", "[Na+].[Cl-]"], features="ogb+ring_nodes")
    for one, other in zip(plain, graphs, strict=True):
        assert other.x[:, :-1].equal(one.x)
        assert not other.x[:, -1].any()
        assert other.edge_index.equal(one.edge_index)
        assert other.edge_type.equal(one.edge_type)


def test_no_molecules() -> None:
    graphs, _ = featurize([""], features="ogb+ring_nodes")
    assert len(graphs) == 0
    assert graphs.arrays.node_table.shape == (0, 10)


def test_packed_again_they_are_the_same_store() -> None:
    graphs, _ = featurize(RINGS, features="ogb+ring_nodes")
    again = PackedGraphs.pack(
        np.concatenate([graph.x.numpy() for graph in graphs]),
        np.concatenate([graph.edge_index.numpy() for graph in graphs], axis=1),
        graphs.arrays.node_ptr.numpy(),
        graphs.arrays.edge_ptr.numpy(),
        edge_type=np.concatenate([graph.edge_type.numpy() for graph in graphs]),
        smiles=RINGS,
        description=graphs.description,
    )
    assert again.description.is_undirected
    assert again.digest() == graphs.digest()
    assert all(one.equal(vars(again.arrays)[name]) for name, one in vars(graphs.arrays).items())


def test_how_many_nodes_are_atoms() -> None:
    graphs, _ = featurize(RINGS, features="ogb+ring_nodes")
    expected = [Chem.MolFromSmiles(text).GetNumAtoms() for text in RINGS]
    assert num_atoms(graphs).tolist() == expected
    assert num_atoms(graphs[[3, 1]]).tolist() == [expected[3], expected[1]]
    assert num_atoms(featurize(RINGS)[0]).tolist() == expected
    assert are_atoms(graphs[1].x.numpy(), "ogb+ring_nodes").tolist() == [True, True, True, False]
    assert are_atoms(graphs[1].x.numpy(), "ogb+rings") is None


def test_a_table_of_molecules_has_them_too() -> None:
    data = load_molecules(["C1CC1", "CC"], y=[1.0, 2.0], features="ogb+ring_nodes", cache=False)
    assert data.num_nodes_per_graph.tolist() == [4, 2]
    assert data.description.num_edge_types == 61
