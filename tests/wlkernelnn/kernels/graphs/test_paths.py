from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator
from torch_geometric.data import Data

from tests.datasets.molecules.test_smiles import DIVERSE
from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import PathKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.codings import coded
from wlkernelnn.kernels.graphs.paths import both_ways
from wlkernelnn.kernels.labels import edge_labels, node_labels


def brute_force(graphs: PackedGraphs, length: int, with_edges: bool) -> np.ndarray:
    """All orders of all nodes, graph by graph."""
    flat, counts = flat_graphs(graphs), []
    labels, types = node_labels(flat), edge_labels(flat) if with_edges else np.zeros(len(flat.source), int)
    for begin, end, first, last in zip(
        flat.node_ptr[:-1], flat.node_ptr[1:], flat.edge_ptr[:-1], flat.edge_ptr[1:], strict=True
    ):
        ways: dict[tuple[int, int], set[int]] = {}
        for u, v, kind in zip(
            *(x[first:last].tolist() for x in (flat.source, flat.target, types)), strict=True
        ):
            ways.setdefault((u, v), set()).add(kind)
            ways.setdefault((v, u), set()).add(kind)
        count: Counter[tuple[int, ...]] = Counter()
        for nodes in permutations(range(begin, end), length):
            if length > 1 and nodes[0] > nodes[-1]:
                continue
            read = [(int(labels[nodes[0]]),)]
            for u, v in pairwise(nodes):
                read = [(*path, kind, int(labels[v])) for path in read for kind in ways.get((u, v), ())]
            count.update(min(path, path[::-1]) for path in read)
        counts.append(count)
    return np.array([[sum(a[key] * b[key] for key in a) for b in counts] for a in counts])


@pytest.mark.parametrize(("length", "with_edges"), [(1, True), (2, False), (2, True), (4, False), (4, True)])
def test_equals_the_definition(length: int, with_edges: bool) -> None:
    graphs = random_packed(25, seed=length)
    small = graphs[np.flatnonzero(flat_graphs(graphs).sizes < 8)]
    expected = brute_force(small, length, with_edges)
    assert expected.any()
    np.testing.assert_array_equal(PathKernel(length, with_edges)(small), expected)


def test_a_path_reads_the_same_from_both_ends() -> None:
    x, forth = torch.tensor([[1], [2], [3]]), torch.tensor([[0, 1], [1, 2]])
    one = Data(x=x, edge_index=forth, edge_type=torch.tensor([7, 8]))
    other = Data(x=x.flip(0), edge_index=forth, edge_type=torch.tensor([8, 7]))
    unlike = Data(x=x, edge_index=forth, edge_type=torch.tensor([8, 7]))
    np.testing.assert_array_equal(PathKernel(3)([one, other, unlike]), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(PathKernel(3, edge_labels=False)([one, unlike]), 1)


def test_on_molecules_these_are_topological_torsions() -> None:
    # RDKit counts a ring of three atoms as a torsion too; a path has four distinct nodes.
    molecules = [Chem.MolFromSmiles(text) for text in DIVERSE]
    chosen = [
        i
        for i, molecule in enumerate(molecules)
        if all(len(ring) > 3 for ring in molecule.GetRingInfo().AtomRings())
    ]
    smiles = [DIVERSE[i] for i in chosen]
    graphs = coded(flat_graphs(smiles, "ogb+invariants"), "element")
    invariants = np.split(node_labels(graphs) + 1, graphs.node_ptr[1:-1])
    generator = rdFingerprintGenerator.GetTopologicalTorsionGenerator()
    expected = [
        generator.GetSparseCountFingerprint(
            molecules[i], customAtomInvariants=values.tolist()
        ).GetNonzeroElements()
        for i, values in zip(chosen, invariants, strict=True)
    ]
    gram = [[sum(a.get(key, 0) * count for key, count in b.items()) for b in expected] for a in expected]
    np.testing.assert_array_equal(PathKernel(4, edge_labels=False, coding="element")(smiles), gram)
    assert PathKernel(4).features(["C1CC1"]).nnz == 0


def test_a_path_has_a_node() -> None:
    with pytest.raises(ValueError, match="length must be"):
        PathKernel(0)(["CC"])


def test_edges_both_ways_with_names_of_any_size() -> None:
    """As many nodes and names as no one number has digits for."""
    graphs = flat_graphs(random_packed(20))
    assert graphs.edge_type is not None
    source, target, types = both_ways(graphs, graphs.edge_type)
    large = both_ways(graphs, graphs.edge_type * 2**58)
    np.testing.assert_array_equal(large, [source, target, types * 2**58])
