"""Walk encodings against exact fractions and PyG's, and that numbering and blocks don't matter."""

from __future__ import annotations

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE

from tests.inputs.graphs import GRAPHS
from wlkernelnn.datasets import featurize, walk_encodings

# "wlkernelnn.datasets.walk_encodings" as an attribute is the function.
from wlkernelnn.datasets.graphs import random_walks as module

Graph = tuple[np.ndarray, np.ndarray, int]


def both_ways(graph: nx.Graph) -> Graph:
    source, target = np.array(graph.edges, dtype=np.int64).reshape(-1, 2).T
    return np.concatenate([source, target]), np.concatenate([target, source]), graph.number_of_nodes()


UNDIRECTED = {
    "path": nx.path_graph(5),
    "ring": nx.cycle_graph(5),
    "fused_rings": nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (4, 5), (5, 6), (6, 7), (7, 0)]),
    "star": nx.star_graph(7),
    "petersen": nx.petersen_graph(),
    # Sums of powers of 1/3 and of 1/6 that are a tie, but not as floating point numbers.
    "tree": nx.balanced_tree(3, 2),
    "bipartite": nx.complete_bipartite_graph(2, 6),
    "two_parts": nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(2)),
}
ALL: dict[str, Graph] = {name: both_ways(graph) for name, graph in UNDIRECTED.items()} | {
    name: (*edges.edge_index.numpy(), edges.num_targets) for name, edges in GRAPHS.items()
}


def encodings(graphs: list[Graph], num_steps: int) -> np.ndarray:
    """Of some graphs end to end."""
    num_nodes = np.array([size for _, _, size in graphs], dtype=np.int64)
    first = np.cumsum(num_nodes) - num_nodes
    none = np.zeros(0, dtype=np.int64)
    source = np.concatenate([none, *(s + f for (s, _, _), f in zip(graphs, first, strict=True))])
    target = np.concatenate([none, *(t + f for (_, t, _), f in zip(graphs, first, strict=True))])
    return walk_encodings(source, target, num_nodes, num_steps)


def exact(graph: Graph, num_steps: int) -> list[list[int]]:
    """By the definition, with fractions."""
    source, target, size = graph
    step = [[Fraction(0)] * size for _ in range(size)]
    for u, v in zip(source.tolist(), target.tolist(), strict=True):
        step[u][v] += Fraction(1, int((source == u).sum()))
    power, result = step, []
    for _ in range(num_steps):
        result.append([math.floor(255 * power[v][v] + Fraction(1, 2)) for v in range(size)])
        power = [
            [sum(power[u][w] * step[w][v] for w in range(size)) for v in range(size)]  # type: ignore[misc]
            for u in range(size)
        ]
    return [list(of_node) for of_node in zip(*result, strict=True)]


def test_equals_exact_fractions() -> None:
    """Also where edges go one way, repeat, or come back at once, and where there are none."""
    for name, graph in ALL.items():
        came = encodings([graph], 8)
        assert came.dtype == np.uint8
        assert came.tolist() == exact(graph, 8), name


def test_equals_pyg() -> None:
    for name in UNDIRECTED:
        source, target, size = ALL[name]
        data = Data(edge_index=torch.from_numpy(np.stack([source, target])), num_nodes=size)
        expected = AddRandomWalkPE(20, attr_name="walks")(data).walks.numpy()
        assert np.abs(encodings([ALL[name]], 20) / 255 - expected).max() <= 0.5 / 255 + 1e-5, name


def test_atoms_in_rings_of_different_sizes_differ() -> None:
    """Though Weisfeiler-Lehman colours without walks do not tell them apart."""
    smiles = ["C1CC1", "C1CCCCC1", "C1CCCCCCC1"]
    plain, _ = featurize(smiles, num_workers=0)
    assert len(set(plain.colours(6)[-1].tolist())) == 1
    with_walks, _ = featurize(smiles, features="ogb+rw8", num_workers=0)
    assert len(set(with_walks.colours(0)[0].tolist())) == 3


def test_no_edges_are_zeros() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert walk_encodings(none, none, np.array([1, 0, 2]), 3).tolist() == [[0, 0, 0]] * 3
    assert walk_encodings(none, none, none, 5).shape == (0, 5)


@pytest.mark.parametrize(("block", "step"), [(1, 4), (30, 1), (2**8, 4), (2**17, 1)])
def test_graphs_of_all_sizes_end_to_end(block: int, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sparse (what exceeds a block) and dense, many to a block or one."""
    rng = np.random.default_rng(0)
    names = [*ALL] * 3
    rng.shuffle(names)
    graphs = [ALL[name] for name in names]
    expected = np.concatenate([encodings([graph], 6) for graph in graphs])
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_STEP", step)
    np.testing.assert_array_equal(encodings(graphs, 6), expected)


def test_a_large_graph() -> None:
    """A ring of 4,000 nodes: after 2k steps, (2k choose k) of 4^k walks are back."""
    source, target, size = both_ways(nx.cycle_graph(4000))
    came = encodings([ALL["ring"], (source, target, size)], 10)[5:]
    expected = [0 if k % 2 else math.comb(k, k // 2) / 2**k for k in range(1, 11)]
    np.testing.assert_array_equal(came, np.tile(np.floor(255 * np.array(expected) + 0.5), (size, 1)))


@pytest.mark.parametrize("name", ["bipartite", "fused_rings"])
def test_numbers_of_nodes_do_not_matter(name: str) -> None:
    source, target, size = ALL[name]
    expected = encodings([ALL[name]], 30)
    rng = np.random.default_rng(1)
    for _ in range(5):
        place, order = rng.permutation(size), rng.permutation(len(source))
        came = encodings([(place[source[order]], place[target[order]], size)], 30)
        np.testing.assert_array_equal(came[place], expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_steps": 0}, "num_steps must be at least 1, got 0"),
        ({"source": np.array([0])}, r"source and target must be \[E\], got shapes \[1\] and \[2\]"),
        ({"source": np.array([0, 3])}, "edges have nodes 0 … 3, expected 0 … 2"),
        ({"target": np.array([-1, 0])}, "edges have nodes -1 … 1, expected 0 … 2"),
        ({"target": np.array([2, 0])}, "an edge goes from one graph to another"),
    ],
    ids=["no_steps", "lengths", "beyond", "negative", "between_graphs"],
)
def test_wrong_arguments(changes: dict[str, object], message: str) -> None:
    arguments = {
        "source": np.array([0, 1]),
        "target": np.array([1, 0]),
        "num_nodes": np.array([2, 1]),
        "num_steps": 4,
    }
    with pytest.raises(ValueError, match=message):
        walk_encodings(**arguments | changes)  # type: ignore[arg-type]
