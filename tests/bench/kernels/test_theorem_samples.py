"""That what theorems are checked on can make them fail."""

from __future__ import annotations

import pytest
import torch

from wlkernelnn import WLKernelConv
from wlkernelnn.bench.kernels.theorem_samples import (
    NUM_TYPES,
    D,
    drawn,
    needing_relabelling,
    nodes_alike,
    random_graphs,
    small_graphs,
)
from wlkernelnn.testing import assert_colours_decide, assert_tells_apart
from wlkernelnn.testing.colours import first_difference

PAIRS = dict(zip(("path and star", "trees", "rings"), needing_relabelling(), strict=True))


def test_colours_that_decide_are_those_of_nodes_with_neighbours() -> None:
    """A layer that numbers all nodes with neighbours is found out on the graphs of the table."""
    graphs = random_graphs(40, seed=1, labels=True)
    assert nodes_alike(graphs, depth=4) > 0

    def numbering(
        x: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor, edge_weight: torch.Tensor
    ) -> torch.Tensor:
        heard = torch.isin(torch.arange(len(x)), edge_index[1])
        return x + (heard * torch.arange(len(x)))[:, None]

    with pytest.raises(AssertionError, match="nodes of equal colour"):
        assert_colours_decide(numbering, graphs, depth=4)


def test_graphs_of_theorem_4_have_edges() -> None:
    for seed in range(10):
        graphs = small_graphs(3, seed)
        assert len(graphs) == 3
        assert all(2 <= graph.num_nodes <= 4 and graph.num_edges for graph in graphs)


@pytest.mark.parametrize(
    ("pair", "told", "needed"),
    [
        ("path and star", 1, ("lin_neighbors",)),
        ("trees", 2, ("lin_neighbors",)),
        ("rings", 1, ("lin_neighbors", "edge_message")),
    ],
)
def test_relabelling_alone_tells_apart(pair: str, told: int, needed: tuple[str, ...]) -> None:
    """Without U_2, or without V_e where only edge types differ, the outputs are the same."""
    first, second = PAIRS[pair]
    assert first_difference(first, second, rounds=12) == told
    for missing in (None, *needed):
        torch.manual_seed(0)
        layer = drawn(WLKernelConv(D, 8, told + 1, num_edge_types=NUM_TYPES, act="tanh"))
        if missing is None:
            assert assert_tells_apart(layer, first, second) > 1e-6
            continue
        for parameter in getattr(layer, missing).parameters():
            torch.nn.init.zeros_(parameter)
        with pytest.raises(AssertionError, match="the two graphs have the same output"):
            assert_tells_apart(layer, first, second)
