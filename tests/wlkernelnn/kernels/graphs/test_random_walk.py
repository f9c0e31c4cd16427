from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from tests.checks.kernels import assert_slopes, gram, similarities, walk_kernel
from tests.checks.pairwise import pairwise
from tests.inputs.strategies import graphs
from wlkernelnn.kernels import RandomWalkKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs import walk_counts as walk_counts_module
from wlkernelnn.testing import assert_psd

KINDS = {
    "plain": {},
    "features": {"num_features": 2},
    "labels": {"num_labels": 2},
    "types": {"num_features": 2, "num_edge_types": 2},
    "attr": {"num_labels": 2, "edge_dim": 2, "weighted": True},
    "weights": {"weighted": True},
}


def several(**options: object) -> st.SearchStrategy[list[Data]]:
    return st.lists(graphs(max_nodes=4, max_edges=5, **options), min_size=1, max_size=4)  # type: ignore[arg-type]


def as_codes(graph: Data) -> Data:
    """One-hot rows as codes, which another part of the kernel counts."""
    coded = graph.clone()
    coded.x = graph.x.argmax(1, keepdim=True) if graph.num_nodes else torch.zeros(0, 1, dtype=torch.int64)
    return coded


@pytest.mark.parametrize(
    ("options", "walk_length"), [*zip(KINDS.values(), [3, 2, 1, 3, 2, 3], strict=True)], ids=KINDS
)
def test_equation_5(options: dict[str, object], walk_length: int) -> None:
    @settings(max_examples=8, deadline=None, derandomize=True)
    @given(several(**options))
    def check(some: list[Data]) -> None:
        kernel = RandomWalkKernel(walk_length, decay=0.6)
        expected = gram(some, some, lambda g, h: walk_kernel(g, h, walk_length, 0.6))
        scale = max(1.0, abs(expected).max())
        values = kernel(some)
        np.testing.assert_allclose(values / scale, expected / scale, rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel(some[:1], some), values[:1], rtol=1e-12, atol=1e-12 * scale)
        np.testing.assert_allclose(kernel.diag(some), values.diagonal(), rtol=1e-12, atol=1e-12 * scale)
        both = RandomWalkKernel(walk_length, decay=0.6, all_lengths=True)(some)
        terms = [RandomWalkKernel(n, decay=0.6)(some) for n in range(1, walk_length)]
        np.testing.assert_allclose(both / scale, sum(terms, values) / scale, rtol=0, atol=1e-12)
        assert_psd(kernel, some)

    check()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(several(num_labels=3, num_edge_types=2, weighted=True), st.integers(1, 4), st.booleans())
def test_counted_walks_are_pairs_of_nodes(some: list[Data], walk_length: int, all_lengths: bool) -> None:
    """Codes are counted walk by walk, one-hot floats compared node by node: both are the same kernel."""
    coded = [as_codes(graph) for graph in some]
    vectors = []
    for graph in some:
        vector = graph.clone()
        vector.edge_attr = one_hot(graph.edge_type, 2).double()
        del vector.edge_type
        vectors.append(vector)
    kernel = RandomWalkKernel(walk_length, decay=0.7, all_lengths=all_lengths)
    expected = kernel(vectors)
    scale = max(1.0, abs(expected).max())
    np.testing.assert_allclose(kernel(coded) / scale, expected / scale, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kernel(coded[:1], coded) / scale, expected[:1] / scale, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kernel.diag(coded) / scale, expected.diagonal() / scale, rtol=0, atol=1e-13)


def test_too_many_walks_go_by_pairs_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = torch.tensor([[0, 1, 2, 1, 2, 0], [1, 2, 0, 0, 1, 2]])
    triangles = [Data(x=torch.tensor(x)[:, None], edge_index=ring) for x in ([0, 1, 2], [0, 0, 1])]
    kernel = RandomWalkKernel(6, decay=0.5)
    counted = kernel(triangles)
    monkeypatch.setattr(walk_counts_module, "_MOST", 10)
    assert walk_counts_module.walk_sides(flat_graphs(triangles), None, [6]) is None
    np.testing.assert_allclose(kernel(triangles), counted, rtol=1e-14)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    graphs(num_features=2, num_edge_types=2, weighted=True),
    graphs(num_features=2, num_edge_types=2, weighted=True),
)
def test_equation_7(g: Data, h: Data) -> None:
    """K_loc, node by node, and its sum."""
    nodes, edges = similarities(g, h)
    local, n = nodes, 3
    for _ in range(n - 1):
        moved = np.zeros_like(local)
        for e, (u, v) in enumerate(g.edge_index.t().tolist()):
            for f, (s, t) in enumerate(h.edge_index.t().tolist()):
                moved[v, t] += edges[e, f] * local[u, s]
        local = nodes * 0.6 * moved
    kernel = RandomWalkKernel(n, decay=0.6)
    scale = max(1.0, abs(local).max(initial=0))
    np.testing.assert_allclose(kernel.local(g, h) / scale, local / scale, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kernel([g], [h])[0, 0] / scale, local.sum() / scale, rtol=0, atol=1e-12)


@pairwise(
    options=[{"walk_length": 3}, {"walk_length": 3, "all_lengths": True}],
    normalize=[False, True],
    kind=["features", "labels"],
)
def test_slopes(options: dict[str, object], normalize: bool, kind: str) -> None:
    rng = torch.Generator().manual_seed(0)
    some = [
        Data(
            x=torch.randn(4, 2, dtype=torch.float64, generator=rng)
            if kind == "features"
            else torch.randint(2, (4, 1), generator=rng),
            edge_index=torch.randint(4, (2, 8), generator=rng),
        )
        for _ in range(3)
    ]
    assert_slopes(RandomWalkKernel(decay=0.4, normalize=normalize, **options), some)  # type: ignore[arg-type]


def test_decay_0_keeps_single_nodes() -> None:
    graph = Data(x=torch.tensor([[1.0, 2.0], [0.5, 1.0]]), edge_index=torch.tensor([[0], [1]]))
    assert RandomWalkKernel(2, decay=0.0)([graph])[0, 0] == 0
    values, slopes = RandomWalkKernel(3, decay=0.0, all_lengths=True)([graph], eval_gradient=True)
    assert values[0, 0] == float((graph.x @ graph.x.t()).sum())
    assert slopes.shape == (1, 1, 0)  # log 0 is no hyper-parameter


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"walk_length": 2.5}, "walk_length must be an integer of at least 1, got 2.5"),
        ({"decay": "gated"}, "decay must be a number of at least 0, got 'gated'"),
        ({"decay": -0.1}, "decay must be a number of at least 0, got -0.1"),
        ({"decay": float("nan")}, "decay must be a number"),
        ({"walk_length": None, "all_lengths": True, "decay": 0.1}, "all_lengths goes with a walk_length"),
    ],
    ids=str,
)
def test_arguments_out_of_range(options: dict[str, object], message: str) -> None:
    graph = Data(x=torch.ones(1, 1), edge_index=torch.zeros(2, 0, dtype=torch.int64))
    kernel = RandomWalkKernel(**options)  # type: ignore[arg-type]
    for use in (lambda: kernel([graph]), lambda: kernel.local(graph, graph)):
        with pytest.raises(ValueError, match=message):
            use()


def test_the_geometric_kernel_has_no_local_form() -> None:
    graph = Data(num_nodes=1)
    with pytest.raises(ValueError, match="local needs a walk_length"):
        RandomWalkKernel(None, decay=0.1).local(graph, graph)
