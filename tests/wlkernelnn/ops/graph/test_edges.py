from __future__ import annotations

import pytest
import torch
from torch_geometric import EdgeIndex

from tests.inputs.graphs import EDGE_INDEX_FORMS, EDGES, Edges, as_edge_index
from wlkernelnn.ops.graph import sort_edges
from wlkernelnn.ops.graph.edges import pointers


@pytest.mark.parametrize("form", EDGE_INDEX_FORMS)
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_sorting_keeps_every_edge(edges: Edges, form: str) -> None:
    edge_index, _ = as_edge_index(edges, form)
    plain = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    result = sort_edges(edge_index, edges.num_sources, edges.num_targets)
    order = torch.arange(plain.size(1)) if result.order is None else result.order
    assert sorted(order.tolist()) == list(range(plain.size(1)))
    assert torch.equal(torch.stack([result.source, result.target]), plain[:, order])
    assert bool((result.target.diff() >= 0).all())
    assert result.num_sources == edges.num_sources
    degree = torch.bincount(plain[1], minlength=edges.num_targets)
    assert result.indptr.tolist() == [0, *degree.cumsum(0).tolist()]


@pytest.mark.parametrize("form", ["by_col", "by_col_with_pointers"])
def test_sorted_edge_index_is_taken_as_it_is(form: str) -> None:
    edge_index, _ = as_edge_index(EDGES["random"], form)
    assert isinstance(edge_index, EdgeIndex)
    result = sort_edges(edge_index, 12, 12)
    assert result.order is None
    assert result.source.data_ptr() == edge_index.as_tensor()[0].data_ptr()
    assert result.target.data_ptr() == edge_index.as_tensor()[1].data_ptr()


def test_reversed_edges_have_other_pointers() -> None:
    """PyG's flip leaves those of the sources, where there is a cache."""
    edges = EdgeIndex([[0, 0, 0, 1], [1, 2, 3, 2]], sparse_size=(4, 4), sort_order="row").fill_cache_()
    back = edges.flip(0)
    assert isinstance(back, EdgeIndex)
    assert back.is_sorted_by_col
    assert sort_edges(back, 4, 4).indptr.tolist() == [0, 3, 4, 4, 4]


def test_pointers_are_of_the_nodes_that_are_there() -> None:
    edge_index, _ = as_edge_index(EDGES["random"], "by_col_with_pointers")
    result = sort_edges(edge_index, 12, 14)  # two more targets than the EdgeIndex knew
    assert result.indptr.tolist()[-3:] == [40, 40, 40]


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("form", EDGE_INDEX_FORMS)
def test_indices_become_int64(form: str, dtype: torch.dtype) -> None:
    edge_index, _ = as_edge_index(EDGES["random"], form)
    result = sort_edges(edge_index.to(dtype), 12, 12)
    assert {t.dtype for t in (result.source, result.target, result.indptr)} == {torch.int64}
    expected = sort_edges(edge_index, 12, 12)
    assert torch.equal(result.source, expected.source)


def test_arrange_moves_edge_values_along() -> None:
    edges = EDGES["many_edges"]
    result = sort_edges(*edges)
    number = torch.arange(2000)
    arranged = result.arrange(number)
    assert arranged is not None
    assert torch.equal(edges.edge_index[0][arranged], result.source)
    assert result.arrange(None) is None
    already_sorted = sort_edges(as_edge_index(edges, "by_col")[0], edges.num_sources, edges.num_targets)
    assert already_sorted.arrange(number) is number


@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_by_source_is_the_same_graph(edges: Edges) -> None:
    result = sort_edges(*edges)
    back = result.by_source()
    assert back.order is not None
    source = torch.arange(edges.num_sources).repeat_interleave(back.indptr.diff())
    assert torch.equal(source, back.target)
    assert torch.equal(back.target, result.source[back.order])
    assert torch.equal(back.source, result.target[back.order])
    assert (back.num_sources, back.num_targets) == (edges.num_targets, edges.num_sources)


def test_pointers_of_empty_rows() -> None:
    assert pointers(torch.tensor([1, 1, 4]), 6).tolist() == [0, 0, 2, 2, 2, 3, 3]
    assert pointers(torch.tensor([], dtype=torch.int64), 0).tolist() == [0]
