from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import GINEConv

from tests.checks.equations import randomize
from tests.inputs.strategies import graphs
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.testing import assert_batching_invariant, assert_permutation_equivariant

LAYERS = {
    "random walk": RandomWalkKernelConv(2, 3, 3, "gated", num_edge_types=2, all_lengths=True),
    "deep": DeepKernelConv(2, 3, 3, "learned", num_edge_types=2, act="tanh", walks_only=True),
    "wl": WLKernelConv(2, 3, 3, num_edge_types=2, act="tanh"),
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_our_layers(layer: torch.nn.Module) -> None:
    randomize(layer)

    @settings(max_examples=25, deadline=None, derandomize=True)
    @given(st.lists(graphs(num_features=2, num_edge_types=2, weighted=True), min_size=1, max_size=3))
    def check(some: list[Data]) -> None:
        assert assert_permutation_equivariant(layer, some) < 1e-12
        assert assert_batching_invariant(layer, some) < 1e-12

    check()


def test_somebody_elses_layer() -> None:
    layer = GINEConv(torch.nn.Linear(2, 3)).double()
    edges = torch.tensor([[0, 1, 2], [1, 2, 1]])
    some = [
        Data(x=torch.randn(n, 2).double(), edge_index=edges, edge_attr=torch.randn(3, 2).double())
        for n in (3, 5)
    ]
    assert assert_permutation_equivariant(layer, some) < 1e-12
    assert assert_batching_invariant(layer, some) < 1e-12


class Breaking(torch.nn.Module):
    """Looks at what it should not see."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.what == "numbers of nodes":
            return x + torch.arange(len(x))[:, None] / 100
        if self.what == "order of edges":
            return x + edge_index[1, :1] / 100
        return x - x.mean(0)


def ring(n: int) -> Data:
    nodes = torch.arange(n)
    return Data(x=torch.randn(n, 2).double(), edge_index=torch.stack([nodes, (nodes + 1) % n]))


@pytest.mark.parametrize("what", ["numbers of nodes", "order of edges"])
def test_a_layer_that_sees_numbers_is_found_out(what: str) -> None:
    with pytest.raises(AssertionError, match="graph 0 with its nodes permuted: relative error"):
        assert_permutation_equivariant(Breaking(what), [ring(6)])


def test_a_layer_that_sees_the_batch_is_found_out() -> None:
    layer = Breaking("the batch")
    assert_permutation_equivariant(layer, [ring(6), ring(3)])
    with pytest.raises(AssertionError, match="graph 0 in a batch of 2: relative error"):
        assert_batching_invariant(layer, [ring(6), ring(3)])


def test_layers_are_left_in_their_mode() -> None:
    layer = WLKernelConv(2, 3).double()
    for training in (True, False):
        layer.train(training)
        assert_permutation_equivariant(layer, [ring(3)])
        assert layer.training == training
    layer.train().act.eval()
    assert_permutation_equivariant(layer, [ring(3)])
    assert layer.training
    assert not layer.act.training


@pytest.mark.parametrize("check", [assert_permutation_equivariant, assert_batching_invariant])
def test_no_graphs_are_no_check(check: Callable[..., float]) -> None:
    with pytest.raises(ValueError, match="graphs is empty"):
        check(WLKernelConv(2, 3).double(), [])
