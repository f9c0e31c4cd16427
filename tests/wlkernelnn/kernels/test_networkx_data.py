"""Graphs of networkx: labels of any kind, and a choice of the attribute."""

from __future__ import annotations

from collections.abc import Hashable

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from wlkernelnn.kernels import (
    DeepGraphKernel,
    RandomWalkKernel,
    StructureKernel,
    WLKernel,
    WLSubtreeKernel,
    WLVectorizer,
    from_networkx,
)

KERNELS: dict[str, StructureKernel] = {
    "walks": RandomWalkKernel(3, 0.5),
    "geometric": RandomWalkKernel(None, 0.05),
    "deep": DeepGraphKernel(2, 2, 0.1),
    "subtree": WLSubtreeKernel(2),
    "wl": WLKernel(RandomWalkKernel(2), 1),
}
LABELS: list[Hashable] = ["C", ("N", 1), None, 7]


def coloured(
    codes: list[int], kinds: list[int], names: list[Hashable], node: str, edge: str
) -> networkx.Graph:
    """A circle of nodes whose labels are those of some codes."""
    graph = networkx.Graph()
    graph.add_nodes_from((f"node {i}", {node: names[code]}) for i, code in enumerate(codes))
    ends = list(graph)
    for first, second, kind in zip(ends, ends[1:] + ends[:1], kinds, strict=True):
        graph.add_edge(first, second, **{edge: names[kind]})
    return graph


CIRCLES = [([0, 1, 2, 3], [0, 1, 1, 0]), ([0, 0, 1], [1, 1, 0]), ([3, 3, 2, 1, 0], [0, 1, 0, 1, 1])]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_labels_of_any_kind_are_codes(kernel: StructureKernel) -> None:
    codes = [coloured(*circle, names=[0, 1, 2, 3], node="x", edge="edge_type") for circle in CIRCLES]
    expected = kernel(codes)
    # Sides are numbered together, whatever comes first.
    any_kind = [coloured(*circle, names=LABELS, node="atom", edge="bond") for circle in CIRCLES]
    graphs = from_networkx(any_kind, node_label="atom", edge_label="bond")
    np.testing.assert_allclose(kernel(graphs), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(graphs[::-1], graphs[:2]), expected[::-1, :2], rtol=1e-12)
    same_names = [coloured(*circle, names=LABELS, node="x", edge="edge_attr") for circle in CIRCLES]
    np.testing.assert_allclose(kernel(same_names), expected, rtol=1e-12)
    as_data = [Data(x=np.array(["C", "O"]), edge_index=torch.tensor([[0], [1]]))]
    assert np.isfinite(kernel(as_data)).all()
    only_sevens = [coloured([3, 3, 3], [1, 1, 1], names=LABELS, node="x", edge="edge_attr")]
    both = kernel([*same_names, *only_sevens])
    np.testing.assert_allclose(kernel(same_names, only_sevens), both[:3, 3:], rtol=1e-12)


def test_attributes_are_chosen() -> None:
    graph = networkx.DiGraph([("a", "b")])
    networkx.set_node_attributes(graph, {"a": "C", "b": "O"}, "label")
    networkx.set_node_attributes(graph, {"a": [1.0, 2.0], "b": [0.5, 0.0]}, "vector")
    networkx.set_edge_attributes(graph, 0.5, "weight")
    (labelled,) = from_networkx([graph])
    assert labelled.x == ["C", "O"]
    assert labelled.edge_index.tolist() == [[0], [1]]
    assert RandomWalkKernel(2)(from_networkx([graph], None)).tolist() == [[1.0]]
    assert RandomWalkKernel(2)(from_networkx([graph], None, edge_weight="weight")).tolist() == [[0.25]]
    assert RandomWalkKernel(2)(from_networkx([graph], "vector")).tolist() == [[5 * 0.25]]
    assert RandomWalkKernel(1)([graph]).tolist() == [[4.0]]  # none of Data's names: all nodes are alike
    counts = WLVectorizer(0).fit(from_networkx([graph])).transform(from_networkx([networkx.DiGraph(), graph]))
    assert counts.toarray().tolist() == [[0, 0], [1, 1]]
    for wrong, message in (
        ({"node_label": "colour"}, "graph 0: a node has no attribute 'colour'"),
        ({"edge_label": "kind"}, "graph 0: an edge has no attribute 'kind'"),
        ({"node_label": None, "edge_weight": "label"}, "graph 0: an edge has no attribute 'label'"),
    ):
        with pytest.raises(ValueError, match=message):
            from_networkx([graph], **wrong)
    graph.add_node("c")
    graph.nodes["a"]["x"] = 1
    with pytest.raises(ValueError, match="graph 0: a node has no attribute 'x'"):
        RandomWalkKernel(1)([graph])


def test_tuples_are_the_same_labels_in_each_graph() -> None:
    """Also where all tuples of a graph have the same length, and could be rows of numbers."""
    two, three = networkx.path_graph(2), networkx.path_graph(3)
    networkx.set_node_attributes(two, {0: (0,), 1: (0,)}, "label")
    networkx.set_node_attributes(three, {0: (0,), 1: (0, 0), 2: (0,)}, "label")
    graphs = from_networkx([two, three])
    kernel = WLSubtreeKernel(0)
    assert kernel(graphs).tolist() == [[4, 4], [4, 5]]
    assert kernel(graphs[:1], graphs[1:]).tolist() == [[4]]
    assert WLVectorizer(0).fit(graphs[1:]).transform(graphs[:1]).toarray().tolist() == [[2, 0]]
    networkx.set_node_attributes(two, {0: (0.5, 1), 1: (1, 2)}, "label")  # vectors
    assert RandomWalkKernel(1)(from_networkx([two]))[0, 0] == pytest.approx(1.5**2 + 3**2)
    networkx.set_node_attributes(two, {0: ([0],), 1: (1,)}, "label")
    with pytest.raises(ValueError, match=r"graph 0: x must hold numbers or hashable labels: .*list"):
        kernel(from_networkx([two]))


def test_floats_of_python_keep_their_digits() -> None:
    weighted = networkx.DiGraph([(0, 1, {"edge_weight": 0.1})])
    assert RandomWalkKernel(2)([weighted]).tolist() == [[0.1 * 0.1]]
    light = [networkx.DiGraph([(0, 1, {"edge_weight": weight})]) for weight in (1e-46, 2e-46)]
    np.testing.assert_allclose(RandomWalkKernel(2, normalize=True)(light), 1)
    ids = [networkx.Graph() for _ in range(2)]
    for graph, label in zip(ids, (2.0**24, 2.0**24 + 1), strict=True):
        graph.add_node(0, label=label)
    assert WLSubtreeKernel(0)(from_networkx(ids)).tolist() == [[1, 0], [0, 1]]
