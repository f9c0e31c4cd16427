"""Subsequences as walks."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
import torch
from torch_geometric.data import Batch, Data

from tests.checks.equations import randomize
from tests.inputs.strings import normal
from wlkernelnn import RandomWalkKernelConv
from wlkernelnn.sequence import StringKernelConv, decayed_sum, path_graph, subsequence_graph

D, K = 3, 4


def forest() -> Data:
    """A batch of an acyclic graph with a shortcut, a tree and a string."""
    return Batch.from_data_list(
        [
            Data(x=normal(5, D), edge_index=torch.tensor([[4, 4, 2, 3, 1], [2, 3, 1, 1, 0]])),
            Data(x=normal(4, D), edge_index=torch.tensor([[0, 1, 2, 0], [2, 2, 3, 3]])),
            Data(x=normal(3, D), edge_index=torch.tensor([[0, 1], [1, 2]])),
        ]
    )


def test_every_pair_of_tokens() -> None:
    graph = path_graph([normal(n, D) for n in (3, 0, 2, 4)])
    closed = subsequence_graph(graph, 0.5)
    begins = graph.ptr.tolist()
    expected = {
        (begin + i, begin + k): 0.5 ** (k - i - 1)
        for begin, end in pairwise(begins)
        for i, k in combinations(range(end - begin), 2)
    }
    pairs = map(tuple, closed.edge_index.t().tolist())
    assert dict(zip(pairs, closed.edge_weight.tolist(), strict=True)) == expected
    assert torch.equal(closed.ptr, graph.ptr)
    assert graph.get("edge_weight") is None


def test_all_paths_between_two_nodes() -> None:
    """(I − AΛ)⁻¹ A, for weights of edges and a λ of every token."""
    graph = forest()
    graph.edge_weight, decay = normal(11), torch.rand(12, dtype=torch.float64)
    closed = subsequence_graph(graph, decay)
    direct, found = torch.zeros(12, 12, dtype=torch.float64), torch.zeros(12, 12, dtype=torch.float64)
    direct[tuple(graph.edge_index)] = graph.edge_weight
    found[tuple(closed.edge_index)] = closed.edge_weight
    torch.testing.assert_close(found, torch.linalg.solve(torch.eye(12) - direct * decay, direct))


def test_gradients_reach_the_decay() -> None:
    graph = forest()
    decay = torch.rand(12, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda decay: subsequence_graph(graph, decay).edge_weight, decay)


@pytest.mark.parametrize("decay", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("ngram", [1, 2, 3])
@pytest.mark.parametrize("normalize", [False, True])
def test_identity_of_the_layers(decay: float, ngram: int, normalize: bool) -> None:
    """Values and gradients, on strings and on other acyclic graphs."""
    layer = StringKernelConv(D, K, ngram, decay, normalize=normalize)
    randomize(layer)
    walks = RandomWalkKernelConv(D, K, ngram)
    for lin, source in zip(walks.lins, layer.lins, strict=True):
        lin.weight = source.weight
    scale = 1 - decay if normalize else 1.0
    for graph in (path_graph([normal(n, D) for n in (4, 0, 1, 3)]), forest()):
        closed = subsequence_graph(graph, decay)
        x = graph.x.requires_grad_()
        walked = walks(x, closed.edge_index, edge_weight=scale * closed.edge_weight)
        expected, (out, _) = decayed_sum(scale * walked, graph, decay), layer(graph)
        torch.testing.assert_close(out, expected)
        for one, other in zip(
            torch.autograd.grad(out.square().sum(), [x, *layer.parameters()]),
            torch.autograd.grad(expected.square().sum(), [x, *walks.parameters()]),
            strict=True,
        ):
            torch.testing.assert_close(one, other)


def test_decayed_sums() -> None:
    graph = path_graph([torch.ones(3, 1), torch.ones(2, 1)])
    assert decayed_sum(graph.x, graph, 0.5).view(-1).tolist() == [1, 1.5, 1.75, 1, 1.5]
    by_token = torch.tensor([[9], [2], [3], [9], [4]])
    assert decayed_sum(graph.x, graph, by_token).view(-1).tolist() == [1, 3, 10, 1, 5]
    tree = Data(edge_index=torch.tensor([[0, 1], [2, 2]]), edge_weight=torch.tensor([1.0, -3.0]))
    both = decayed_sum(torch.tensor([[1.0, 2.0], [1, 1], [0, 0]]), tree, torch.tensor([0.5, 1.0]))
    assert both[2].tolist() == [-1, -1]


def test_what_has_no_subsequences() -> None:
    loop = Data(x=normal(3, D), edge_index=torch.tensor([[0, 1, 2], [1, 2, 1]]))
    with pytest.raises(ValueError, match=r"subsequence_graph reads acyclic graphs: nodes .* are a cycle"):
        subsequence_graph(loop, 0.5)
    with pytest.raises(ValueError, match=r"decayed_sum reads acyclic graphs: nodes .* are a cycle"):
        decayed_sum(loop.x, loop, 0.5)
    with pytest.raises(ValueError, match=r"decay must be a number or \[4\], one per token, got \[2\]"):
        subsequence_graph(normal(4, D), torch.rand(2))
