"""Equal colours give equal outputs; graphs told apart have different ones, under the assumptions stated."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from torch import Tensor
from torch_geometric.data import Data

from tests.checks.equations import randomize
from tests.inputs.strategies import graphs
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.testing import assert_colours_decide, assert_tells_apart
from wlkernelnn.testing.calling import call
from wlkernelnn.testing.colours import first_difference

LAYERS = {
    "random walk": RandomWalkKernelConv(2, 3, 3, "gated", num_edge_types=2),
    "deep": DeepKernelConv(2, 3, 2, "learned", num_edge_types=2),
    "wl, 1 iteration": WLKernelConv(2, 3, 1, num_edge_types=2),
    "wl, 3 iterations": WLKernelConv(2, 3, 3, 3, num_edge_types=2, all_lengths=True),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_equal_colours_give_equal_outputs(layer: torch.nn.Module) -> None:
    randomize(layer)

    @settings(max_examples=20, deadline=None, derandomize=True)
    @given(graphs(num_labels=2, num_edge_types=2, max_nodes=8), graphs(num_labels=2, num_edge_types=2))
    def check(first: Data, second: Data) -> None:
        assert assert_colours_decide(layer, [first, second]) < 1e-12

    check()


def path(n: int) -> Data:
    steps = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    return Data(x=torch.ones(n, 2, dtype=torch.float64), edge_index=torch.cat([steps, steps.flip(0)], 1))


def test_depth_is_exact() -> None:
    """One round fewer than L + n − 2 does not decide: the layer sees further."""
    layer = WLKernelConv(2, 6, 3, act="tanh")
    randomize(layer)
    assert_colours_decide(layer, [path(9)], depth=3)
    with pytest.raises(AssertionError, match="nodes of equal colour: relative error"):
        assert_colours_decide(layer, [path(9)], depth=2)


def test_a_layer_that_sees_more_is_found_out() -> None:
    def numbering(x: Tensor, edge_index: Tensor) -> Tensor:
        return x + torch.arange(len(x))[:, None]

    with pytest.raises(AssertionError, match="nodes of equal colour"):
        assert_colours_decide(numbering, [path(4)], depth=5)
    # Another graph with far larger outputs hides nothing.
    large = Data(x=torch.full((1, 2), 1e15, dtype=torch.float64), edge_index=torch.empty(2, 0).long())
    with pytest.raises(AssertionError, match="nodes of equal colour"):
        assert_colours_decide(numbering, [path(4), large], depth=5)
    with pytest.raises(ValueError, match="say to what depth a function sees"):
        assert_colours_decide(numbering, [path(4)])


@pytest.mark.parametrize("all_lengths", [False, True], ids=["no isolated nodes", "all lengths"])
def test_told_apart_means_different_outputs(all_lengths: bool) -> None:
    """tanh, n = 2, L ≥ max(r, 1) + 1, and no node without in-neighbours unless all lengths count."""

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(
        graphs(num_labels=2, num_edge_types=2, min_nodes=1, no_isolated_nodes=not all_lengths),
        graphs(num_labels=2, num_edge_types=2, min_nodes=1, no_isolated_nodes=not all_lengths),
    )
    def check(first: Data, second: Data) -> None:
        told = first_difference(first, second, rounds=12)
        torch.manual_seed(0)
        depth = 3 if told is None else max(told, 1) + 1
        layer = WLKernelConv(2, 8, depth, num_edge_types=2, act="tanh", all_lengths=all_lengths)
        randomize(layer)
        if told is None:
            sums = [call(layer, graph).sum(0) for graph in (first, second)]
            torch.testing.assert_close(*sums, rtol=1e-10, atol=1e-10)
        else:
            assert_tells_apart(layer, first, second)

    check()


def test_first_difference() -> None:
    assert first_difference(path(3), path(4), 5) == 0
    ring = Data(
        x=torch.ones(4, 2).double(),
        edge_index=torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]]),
    )
    assert first_difference(path(4), ring, 5) == 1
    assert first_difference(ring, ring, 5) is None
    # A path of 6 nodes, and one of 4 beside a pair, which has more ends.
    both = Data(x=torch.ones(6, 2).double())
    both.edge_index = torch.cat([path(4).edge_index, path(2).edge_index + 4], dim=1)
    assert first_difference(both, path(6), 5) == 1


def test_isolated_nodes_are_what_walks_of_two_nodes_cannot_see() -> None:
    """The assumption is needed: a walk of two nodes passes by an atom that stands alone."""
    with_ion = path(3)
    with_ion.x = torch.cat([with_ion.x, torch.ones(1, 2).double()])
    layer = WLKernelConv(2, 8, 3, act="tanh")
    randomize(layer)
    with pytest.raises(AssertionError, match="the two graphs have the same output"):
        assert_tells_apart(layer, path(3), with_ion)
    layer = WLKernelConv(2, 8, 3, act="tanh", all_lengths=True)
    randomize(layer)
    assert assert_tells_apart(layer, path(3), with_ion) > 1e-6


def test_relu_can_merge_what_colours_tell_apart() -> None:
    """The assumption on the activation is needed: here every message is negative, and ReLU makes it 0."""
    rest = WLKernelConv(2, 8, 3, act="relu", decay=0.5)
    randomize(rest)
    with torch.no_grad():
        assert rest.lin_message is not None
        assert rest.lin_self is not None
        rest.lin_message.bias.fill_(-100.0)
        rest.lin_self.bias.fill_(-100.0)
    ring = Data(
        x=torch.ones(6, 2).double(), edge_index=torch.stack([torch.arange(6), (torch.arange(6) + 1) % 6])
    )
    # A directed ring and stars into one node: in-degree 1 everywhere against 6 and 0, with as many edges.
    star = Data(x=ring.x, edge_index=torch.stack([torch.arange(6), torch.zeros(6, dtype=torch.int64)]))
    assert first_difference(ring, star, 3) == 1
    with pytest.raises(AssertionError, match="the same output"):
        assert_tells_apart(rest, ring, star)
