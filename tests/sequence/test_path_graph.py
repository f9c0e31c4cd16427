from __future__ import annotations

import pytest
import torch

from wlkernelnn import RandomWalkKernelConv
from wlkernelnn.sequence import path_graph


def test_edges_stay_inside_strings() -> None:
    strings = [torch.randn(n, 3) for n in (3, 0, 1, 2)]
    graph = path_graph(strings)
    assert graph.ptr.tolist() == [0, 3, 3, 4, 6]
    assert graph.batch.tolist() == [0, 0, 0, 2, 3, 3]
    assert graph.edge_index.as_tensor().tolist() == [[0, 1, 4], [1, 2, 5]]
    graph.edge_index.validate()
    torch.testing.assert_close(graph.x, torch.cat(strings))


def test_token_ids() -> None:
    graph = path_graph([torch.tensor([5, 6]), torch.tensor([7])])
    assert graph.x.tolist() == [5, 6, 7]
    assert graph.edge_index.as_tensor().tolist() == [[0], [1]]


def test_random_walk_layer_on_a_string_multiplies_consecutive_tokens() -> None:
    """λ = 0 with products: the state at t sees tokens t − 1 and t only."""
    torch.manual_seed(0)
    strings = [torch.randn(n, 4, dtype=torch.float64) for n in (5, 1, 3)]
    conv = RandomWalkKernelConv(4, 6).double()
    out = conv(*(path_graph(strings)[key] for key in ("x", "edge_index")))
    first, second = (lin.weight for lin in conv.lins)
    expected = []
    for string in strings:
        previous = torch.cat([torch.zeros(1, 4, dtype=torch.float64), string[:-1]])
        expected.append((previous @ first.T) * (string @ second.T))
    torch.testing.assert_close(out, torch.cat(expected))


def test_no_strings() -> None:
    with pytest.raises(ValueError, match="at least one string"):
        path_graph([])


def test_different_widths() -> None:
    with pytest.raises(ValueError, match=r"string 1 .*\[3\].*expected \[2\]"):
        path_graph([torch.zeros(2, 2), torch.zeros(1, 3)])
