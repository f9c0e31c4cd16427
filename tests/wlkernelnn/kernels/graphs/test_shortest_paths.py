from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from tests.datasets.molecules.test_smiles import DIVERSE
from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.kernels import ShortestPathKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs import shortest_paths
from wlkernelnn.kernels.graphs.codings import coded
from wlkernelnn.kernels.labels import node_labels


def brute_force(graphs: PackedGraphs, most: float) -> np.ndarray:
    """Pairs of labels and distances by networkx, graph by graph."""
    flat, counts = flat_graphs(graphs), []
    labels = node_labels(flat)
    for i, begin in enumerate(flat.node_ptr[:-1]):
        graph = networkx.Graph()
        graph.add_nodes_from(range(begin, flat.node_ptr[i + 1]))
        edges = slice(*flat.edge_ptr[i : i + 2])
        graph.add_edges_from(zip(flat.source[edges].tolist(), flat.target[edges].tolist(), strict=True))
        counts.append(
            Counter(
                (*sorted((labels[u], labels[v])), distance)
                for u, reached in networkx.all_pairs_shortest_path_length(graph)
                for v, distance in reached.items()
                if u < v and distance <= most
            )
        )
    return np.array([[sum(a[key] * b[key] for key in a) for b in counts] for a in counts])


@pytest.mark.parametrize("max_distance", [1, 3, None])
def test_equals_the_definition(max_distance: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = random_packed(30, seed=2)
    expected = brute_force(graphs, max_distance or np.inf)
    assert expected.any()
    np.testing.assert_array_equal(ShortestPathKernel(max_distance)(graphs), expected)
    monkeypatch.setattr(shortest_paths, "_PAIRS", 100)  # a few graphs at a time
    np.testing.assert_array_equal(ShortestPathKernel(max_distance)(graphs), expected)


def test_by_hand() -> None:
    # Butane: three pairs of neighbours, two pairs at distance 2, one at 3; ends and middles differ.
    counts = ShortestPathKernel().features(["CCCC", "C"]).toarray()
    assert sorted(counts[0].tolist()) == [1, 1, 2, 2]
    assert not counts[1].any()


def test_on_molecules_these_are_atom_pairs() -> None:
    smiles = [text for text in DIVERSE if Chem.MolFromSmiles(text).GetNumAtoms() < 60]
    graphs = coded(flat_graphs(smiles, "ogb+invariants"), "ecfp")
    invariants = np.split(node_labels(graphs) + 1, graphs.node_ptr[1:-1])
    generator = rdFingerprintGenerator.GetAtomPairGenerator(maxDistance=12)
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    expected = [
        generator.GetSparseCountFingerprint(
            molecule, customAtomInvariants=values.tolist()
        ).GetNonzeroElements()
        for molecule, values in zip(molecules, invariants, strict=True)
    ]
    gram = [[sum(a.get(key, 0) * count for key, count in b.items()) for b in expected] for a in expected]
    packed, _ = featurize(smiles, features="ogb+invariants")
    np.testing.assert_array_equal(ShortestPathKernel(12, coding="ecfp")(packed), gram)


def test_a_distance_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="max_distance must be"):
        ShortestPathKernel(0)(["CC"])
