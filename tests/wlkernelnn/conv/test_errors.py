"""Options and arguments that do not fit, for all layers alike."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric import EdgeIndex

from tests.checks.kernel_convs import (
    ALL_LAYERS,
    D,
    K,
    make,
)
from tests.inputs.graphs import EDGES
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv


@ALL_LAYERS
def test_edges_go_from_source_to_target(layer: str) -> None:
    conv, edges = make(layer), EDGES["random"]
    conv.flow = "target_to_source"
    with pytest.raises(ValueError, match="flow must be \"source_to_target\", got 'target_to_source'"):
        conv(torch.zeros(edges.num_sources, D), edges.edge_index)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (RandomWalkKernelConv, {"walk_length": 0}, "walk_length must be an integer of at least 1, got 0"),
        (RandomWalkKernelConv, {"compose": "concat"}, "compose must be one of mul, add, got 'concat'"),
        (RandomWalkKernelConv, {"decay": 1.5}, r"decay must be a float in \[0, 1\]"),
        (RandomWalkKernelConv, {"decay": "gate"}, "decay must be .* got 'gate'"),
        (RandomWalkKernelConv, {"gate_scale": 10.0}, 'gate_scale=10.0 needs decay="gated"'),
        (RandomWalkKernelConv, {"num_edge_types": 4, "edge_dim": 2}, "not both .got 4 and 2"),
        (
            RandomWalkKernelConv,
            {"num_edge_types": 0},
            "num_edge_types must be an integer of at least 1, got 0",
        ),
        (RandomWalkKernelConv, {"edge_dim": -1}, "edge_dim must be an integer of at least 1, got -1"),
        (
            RandomWalkKernelConv,
            {"in_channels": 0},
            "in_channels must be .* at least 1, or -1 for lazy, got 0",
        ),
        (RandomWalkKernelConv, {"in_channels": (3, -2)}, r"in_channels must be .* got \(3, -2\)"),
        (RandomWalkKernelConv, {"out_channels": 0}, "out_channels must be an integer of at least 1, got 0"),
        (RandomWalkKernelConv, {"in_channels": (3, 3), "walk_length": 3}, "bipartite .* walk_length=3"),
        (RandomWalkKernelConv, {"in_channels": (3, 3), "all_lengths": True}, "all_lengths needs one kind"),
        (RandomWalkKernelConv, {"act": "rely"}, "Could not resolve 'rely'"),
        (RandomWalkKernelConv, {"decay": "gated", "gate_scale": float("nan")}, "gate_scale must be a finite"),
        *(
            (kind, {"act": torch.nn.ReLU(inplace=True)}, "act must leave its input as it is")
            for kind in (RandomWalkKernelConv, DeepKernelConv, WLKernelConv)
        ),
        (DeepKernelConv, {"walk_length": -1}, "walk_length must be an integer .* got -1"),
        (DeepKernelConv, {"in_channels": (3, 3), "walk_length": 1}, "bipartite .* walk_length=1"),
        (WLKernelConv, {"num_iterations": 0}, "num_iterations must be an integer of at least 1, got 0"),
        (WLKernelConv, {"num_iterations": 2.0}, r"num_iterations must be an integer .* got 2\.0"),
        (WLKernelConv, {"walk_length": True}, "walk_length must be an integer .* got True"),
        (WLKernelConv, {"out_channels": 8.0}, r"out_channels must be an integer .* got 8\.0"),
        (WLKernelConv, {"readout": "mean"}, "readout must be one of sum, last, cat, got 'mean'"),
        (WLKernelConv, {"readout": "cat", "num_iterations": 3}, "8 is not divisible by num_iterations=3"),
        (WLKernelConv, {"in_channels": (3, 3)}, "bipartite .* num_iterations=4"),
        (
            WLKernelConv,
            {"in_channels": (3, 3), "num_iterations": 1, "walk_length": 3},
            "bipartite .* walk_length=3",
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)
def test_options_out_of_range(kind: type[KernelConv], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{"in_channels": D, "out_channels": K} | options)


EDGE_INDEX = EDGES["isolated"].edge_index  # three edges, nodes 1, 2 and 5 of seven


@ALL_LAYERS
@pytest.mark.parametrize(
    ("options", "arguments", "error", "message"),
    [
        ({"num_edge_types": 4}, {}, ValueError, r"needs edge_type: integers of shape \[E\], got nothing"),
        (
            {"num_edge_types": 4},
            {"edge_type": torch.zeros(3)},
            ValueError,
            r"needs edge_type: integers .* got torch.float32 \[3\]",
        ),
        (
            {"num_edge_types": 4},
            {"edge_type": torch.zeros(3, dtype=torch.bool)},
            ValueError,
            "needs edge_type: integers .* got torch.bool",
        ),
        (
            {"num_edge_types": 4},
            {"edge_type": torch.zeros(3, 1, dtype=torch.int64)},
            ValueError,
            r"needs edge_type: integers .* got torch.int64 \[3, 1\]",
        ),
        (
            {"num_edge_types": 4},
            {"edge_type": torch.tensor([0, 4, 1])},
            IndexError,
            r"edge_type has values 0 … 4, expected 0 … 3 \(num_edge_types=4\)",
        ),
        ({"num_edge_types": 4}, {"edge_type": torch.tensor([0, -1, 1])}, IndexError, "values -1 … 1"),
        (
            {"num_edge_types": 4},
            {"edge_type": torch.tensor([0, 1])},
            ValueError,
            r"edge_type has shape \[2\], expected one row per edge \(3\)",
        ),
        ({"edge_dim": 2}, {}, ValueError, r"needs edge_attr of shape \[E, 2\], got nothing"),
        (
            {"edge_dim": 2},
            {"edge_attr": torch.zeros(3, 5)},
            ValueError,
            r"needs edge_attr of shape \[E, 2\], got shape \[3, 5\]",
        ),
        ({"edge_dim": 2}, {"edge_attr": torch.zeros(3)}, ValueError, r"got shape \[3\]"),
        ({"edge_dim": 2}, {"edge_attr": torch.zeros(4, 2)}, ValueError, r"edge_attr has shape \[4, 2\]"),
        ({}, {"edge_attr": torch.zeros(3, 2)}, ValueError, "got edge_attr, but was made without edge_dim"),
        (
            {},
            {"edge_type": torch.zeros(3, dtype=torch.int64)},
            ValueError,
            "got edge_type, but was made without num_edge_types",
        ),
        ({}, {"edge_weight": torch.ones(2)}, ValueError, r"edge_weight has shape \[2\], .* \(3\)"),
        (
            {},
            {"edge_weight": torch.ones(3, 2)},
            ValueError,
            r"edge_weight has shape \[3, 2\], expected one number per edge \(3\)",
        ),
        ({}, {"edge_weight": torch.tensor(1.0)}, ValueError, r"edge_weight has shape \[\]"),
        (
            {},
            {"edge_index": torch.tensor([[0], [7]])},
            IndexError,
            "edge_index has target nodes 7 … 7, expected 0 … 6 for 7 target nodes",
        ),
        ({}, {"edge_index": torch.tensor([[-1], [0]])}, IndexError, "source nodes -1 … -1, expected 0 … 6"),
        (
            {},
            {"edge_index": EDGE_INDEX.t()},
            ValueError,
            r"integers of shape \[2, E\], got torch.int64 of shape \[3, 2\]",
        ),
        (
            {},
            {"edge_index": EDGE_INDEX.float()},
            ValueError,
            r"integers of shape \[2, E\], got torch.float32",
        ),
        ({}, {"edge_index": torch.eye(7).to_sparse()}, ValueError, "edge_index .* got a sparse matrix"),
        ({}, {"x": torch.zeros(7)}, ValueError, r"needs x of shape \[N, in_channels\] .* got shape \[7\]"),
        ({}, {"x": torch.zeros(1, 7, D)}, ValueError, r"needs x .* got shape \[1, 7, 3\]"),
    ],
)
def test_arguments_that_do_not_fit(
    layer: str,
    options: dict[str, Any],
    arguments: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    conv = make(layer, options)
    with pytest.raises(error, match=message):
        conv(**{"x": torch.zeros(7, D), "edge_index": EDGE_INDEX} | arguments)


@ALL_LAYERS
def test_pairs_of_features_where_they_have_no_meaning(layer: str) -> None:
    with pytest.raises(ValueError, match="bipartite graph"):
        make(layer)((torch.zeros(7, D), torch.zeros(7, D)), EDGE_INDEX)


@pytest.mark.parametrize("kind", [RandomWalkKernelConv, WLKernelConv])
def test_pairs_of_features_have_no_walks_of_one_node(kind: type[KernelConv]) -> None:
    """Not even where the two kinds of nodes are equally many, and could be added."""
    iterations = {"num_iterations": 1} if kind is WLKernelConv else {}
    conv = kind(D, K, all_lengths=True, **iterations)  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"all_lengths needs one kind of nodes.*; give all_lengths=False"):
        conv((torch.zeros(7, D), torch.zeros(7, D)), EDGE_INDEX)
    with pytest.raises(ValueError, match=r"all_lengths needs one kind of nodes.*; give all_lengths=False"):
        kind((D, D), K, all_lengths=True, **iterations)  # type: ignore[call-arg]


def test_bipartite_graphs_need_features_of_the_targets() -> None:
    with pytest.raises(ValueError, match=r"needs x .* \(or a pair of such\), got nothing"):
        RandomWalkKernelConv((D, D), K)((torch.zeros(7, D), None), EDGE_INDEX)


def test_nobody_reads_beyond_an_edge_index_that_lies() -> None:
    """Nodes out of range are found in an EdgeIndex as well."""
    edge_index = EdgeIndex([[0, 1], [1, 9]], sort_order="col")
    with pytest.raises(IndexError, match="target nodes 1 … 9"):
        RandomWalkKernelConv(D, K)(torch.zeros(7, D), edge_index)
