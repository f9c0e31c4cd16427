"""Theorem 3, equation (7), the gated identity and proposition 2, on graphs that hypothesis draws."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.nn import GraphConv

from tests.checks.equations import randomize
from tests.checks.pairwise import pairwise
from tests.inputs.strategies import graphs
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.kernels import DeepGraphKernel, RandomWalkKernel
from wlkernelnn.testing import assert_matches_kernel, reference_walks

D, K = 2, 4
EDGES = {
    "plain": ({}, {}),
    "types": ({"num_edge_types": 3}, {"num_edge_types": 3, "weighted": True}),
    "attr": ({"edge_dim": 2}, {"edge_dim": 2, "weighted": True}),
}
Edges = tuple[dict[str, int], dict[str, int]]
DECAYS = [0.7, "learned", "gated"]
REPEAT = settings(max_examples=5, deadline=None, derandomize=True)


def constant(decay: float | str) -> float:
    return decay if isinstance(decay, float) else 1.0


@pairwise(edges=EDGES, decay=DECAYS, walk_length=[1, 2, 3], all_lengths=[False, True])
def test_theorem_3(edges: Edges, decay: float | str, walk_length: int, all_lengths: bool) -> None:
    options, carried = edges
    torch.manual_seed(walk_length)
    layer = RandomWalkKernelConv(D, K, walk_length, decay, all_lengths=all_lengths, **options)  # type: ignore[arg-type]
    randomize(layer)
    kernel = RandomWalkKernel(walk_length, constant(decay), all_lengths=all_lengths)

    @REPEAT
    @given(st.lists(graphs(num_features=D, **carried), min_size=1, max_size=2))  # type: ignore[arg-type]
    def check(some: list[Data]) -> None:
        assert assert_matches_kernel(layer, kernel, some) < 1e-12

    check()


def test_single_precision_is_refused() -> None:
    layer, kernel = RandomWalkKernelConv(D, K).double(), RandomWalkKernel(2)
    edges = torch.tensor([[0], [1]])
    for graph, name in (
        (Data(x=torch.ones(2, D, dtype=torch.float32), edge_index=edges), "x"),
        (
            Data(x=torch.ones(2, D).double(), edge_index=edges, edge_weight=torch.ones(1).half()),
            "edge_weight",
        ),
    ):
        with pytest.raises(ValueError, match=rf"{name} of graph 0 is torch.float\d\d: make it double\(\)"):
            assert_matches_kernel(layer, kernel, [graph])


@pairwise(edges=EDGES, decay=DECAYS, walk_length=[1, 3])
def test_equation_7_with_sums(edges: Edges, decay: float | str, walk_length: int) -> None:
    options, carried = edges
    layer = RandomWalkKernelConv(D, K, walk_length, decay, compose="add", **options)  # type: ignore[arg-type]
    randomize(layer)
    kernel = DeepGraphKernel(1, walk_length, constant(decay), "add", "identity")

    @REPEAT
    @given(graphs(num_features=D, **carried))  # type: ignore[arg-type]
    def check(graph: Data) -> None:
        assert assert_matches_kernel(layer, kernel, [graph]) < 1e-12

    check()


@pytest.mark.halved
@pairwise(
    edges=EDGES,
    decay=DECAYS,
    shape=[
        {"num_iterations": 1},
        {"num_iterations": 3, "all_lengths": True},
        {"num_iterations": 3, "readout": "cat", "walk_length": 3},
        {"num_iterations": 2, "readout": "last", "share_walk_weights": True},
        {"num_iterations": 2, "share_walk_weights": True, "walk_length": 1},
    ],
)
def test_proposition_2(edges: Edges, decay: float | str, shape: dict[str, object]) -> None:
    options, carried = edges
    layer = WLKernelConv(D, 3, decay=decay, act="tanh", **options, **shape)  # type: ignore[arg-type]
    randomize(layer)
    walk = layer.walks[0]
    assert isinstance(walk, RandomWalkKernelConv)
    kernel = RandomWalkKernel(walk.walk_length, constant(decay), all_lengths=walk.all_lengths)

    @REPEAT
    @given(graphs(num_features=D, **carried))  # type: ignore[arg-type]
    def check(graph: Data) -> None:
        assert assert_matches_kernel(layer, kernel, [graph]) < 1e-12

    check()


# That the assertion notices.


def fixed_graph() -> Data:
    torch.manual_seed(5)
    return Data(
        x=torch.randn(4, D, dtype=torch.float64), edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 2]])
    )


def made(**options: object) -> RandomWalkKernelConv:
    layer = RandomWalkKernelConv(D, K, **options)  # type: ignore[arg-type]
    randomize(layer)
    return layer


def test_a_wrong_layer_is_found_out() -> None:
    layer, kernel = made(walk_length=3, decay=0.7), RandomWalkKernel(3, 0.7)
    assert_matches_kernel(layer, kernel, [fixed_graph()])
    layer.register_forward_hook(lambda module, inputs, out: out * (1 + 1e-8))
    with pytest.raises(AssertionError, match="allowed is 1e-09"):
        assert_matches_kernel(layer, kernel, [fixed_graph()])
    layer.register_forward_hook(lambda module, inputs, out: out * float("nan"))
    with pytest.raises(AssertionError, match="not finite"):
        assert_matches_kernel(layer, kernel, [fixed_graph()])


def test_paths_are_directed() -> None:
    """With the reference walks turned around, a directed graph gives something else."""
    layer, kernel = made(), RandomWalkKernel(2)
    walks = reference_walks(layer)
    assert assert_matches_kernel(layer, kernel, [fixed_graph()], walks) < 1e-12
    for walk in walks:
        walk.edge_index = walk.edge_index.flip(0)
    with pytest.raises(AssertionError, match="graph 0: relative error"):
        assert_matches_kernel(layer, kernel, [fixed_graph()], walks)


def test_somebody_elses_layer() -> None:
    """W_2 Σ_u x_u summed over nodes is a walk kernel with references that see nothing of their last node."""
    layer = GraphConv(D, K, bias=False).double()
    torch.nn.init.zeros_(layer.lin_root.weight)
    references = []
    for row in layer.lin_rel.weight.detach():
        # A node of features w, and a step that weighs nothing but the number of walks.
        references.append(
            Data(x=torch.stack([row, torch.zeros_like(row)]), edge_index=torch.tensor([[0], [1]]))
        )

    class Sources(torch.nn.Module):
        """Walks of two nodes: the last one is compared by a constant feature."""

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return layer(x[:, :D], edge_index)

    graph = fixed_graph()
    graph.x = torch.cat([graph.x, torch.ones(4, 1, dtype=torch.float64)], dim=1)
    for reference in references:
        constant_feature = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        reference.x = torch.cat([reference.x, constant_feature], dim=1)
    assert assert_matches_kernel(Sources(), RandomWalkKernel(2), [graph], references) < 1e-12
    with pytest.raises(ValueError, match="references are needed for a Sources"):
        assert_matches_kernel(Sources(), RandomWalkKernel(2), [graph])


@pytest.mark.parametrize(
    ("layer", "kernel", "message"),
    [
        (made(act="tanh"), RandomWalkKernel(2), "see assert_in_rkhs"),
        (made(compose="add"), RandomWalkKernel(2), "compose='add' is not the kernel"),
        (made(), DeepGraphKernel(1, 2, 1.0, "add", "identity"), "compose='mul' is not the kernel"),
        (made(decay=0.5), RandomWalkKernel(2), "goes with a kernel with decay=0.5, got 1.0"),
        (made(decay="gated"), RandomWalkKernel(2, 0.5), "goes with a kernel with decay=1, got 0.5"),
        (
            made(walk_length=3),
            RandomWalkKernel(2),
            "of the layer's walks, .*'walk_length': 3.*; got .*'walk_length': 2",
        ),
        (made(), RandomWalkKernel(2, all_lengths=True), "'all_lengths': False.*; got .*'all_lengths': True"),
        (
            made(compose="add", all_lengths=True),
            DeepGraphKernel(1, 2, 1.0, "add", "identity"),
            "'all_lengths': True.*; got .*'all_lengths': False",
        ),
        (RandomWalkKernelConv(D, K), RandomWalkKernel(2), "make the layer double"),
        (DeepKernelConv(D, K).double(), RandomWalkKernel(2), "references are needed for a DeepKernelConv"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_layers_and_kernels_that_do_not_go_together(
    layer: torch.nn.Module, kernel: RandomWalkKernel, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        assert_matches_kernel(layer, kernel, [fixed_graph()])


def test_reference_walks() -> None:
    layer = made(walk_length=3, num_edge_types=2)
    walks = reference_walks(layer)
    assert len(walks) == K
    assert torch.equal(walks[1].x, torch.stack([lin.weight[1] for lin in layer.lins]))
    assert walks[1].edge_index.tolist() == [[0, 1], [1, 2]]
    assert torch.equal(walks[1].edge_attr, torch.stack([factor.table[:, 1] for factor in layer.edge_factors]))
    assert reference_walks(layer, 1)[0].edge_attr.shape == (0, 2)
