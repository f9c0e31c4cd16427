"""What PyG expects of a layer, for all layers alike."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.nn.parameter import is_lazy
from torch_geometric.data import Batch, Data
from torch_geometric.testing import assert_module

from tests.checks.equations import randomize
from tests.checks.kernel_convs import (
    ALL_LAYERS,
    ALL_OPTIONS,
    LAYERS,
    NUM_TYPES,
    OPTIONS,
    D,
    K,
    arguments_of,
    make,
    select,
    watch,
)
from tests.checks.pairwise import pairwise
from tests.inputs.graphs import EDGE_INDEX_FORMS, EDGES, GRAPHS, Edges, as_edge_index
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv
from wlkernelnn.utils.files import read_tensors, write_tensors

# Laws


@pairwise(layer=LAYERS.keys(), options=OPTIONS, edges=GRAPHS)
def test_pyg_contract(layer: str, options: dict[str, Any], edges: Edges) -> None:
    conv, x = make(layer, options), torch.randn(edges.num_sources, D)
    arguments = arguments_of(options, edges.edge_index.size(1))
    assert_module(
        conv,
        x,
        edges.edge_index,
        expected_size=(edges.num_targets, K),
        test_sparse_layouts=[],
        atol=1e-6,
        **arguments,
    )


@ALL_LAYERS
@ALL_OPTIONS
def test_numbering_of_nodes_does_not_matter(layer: str, options: dict[str, Any]) -> None:
    edge_index, num_nodes, _ = EDGES["random"]
    conv, x = make(layer, options).double(), torch.randn(num_nodes, D, dtype=torch.float64)
    arguments = arguments_of(options, edge_index.size(1), dtype=torch.float64)
    number = torch.randperm(num_nodes)
    renumbered = torch.empty_like(x)
    renumbered[number] = x
    out = conv(renumbered, number[edge_index], **arguments)
    torch.testing.assert_close(out[number], conv(x, edge_index, **arguments))


@ALL_LAYERS
@ALL_OPTIONS
def test_graphs_of_a_batch_do_not_meet(layer: str, options: dict[str, Any]) -> None:
    """Also with a graph without edges, and one without nodes, among them."""
    conv, graphs = make(layer, options), []
    for name in ("random", "no_nodes", "no_edges", "isolated"):
        edge_index, num_nodes, _ = EDGES[name]
        arguments = arguments_of(options, edge_index.size(1))
        graphs.append(Data(x=torch.randn(num_nodes, D), edge_index=edge_index, **arguments))
    batch = Batch.from_data_list(graphs)
    names = arguments.keys()
    alone = [conv(g.x, g.edge_index, **{name: g[name] for name in names}) for g in graphs]
    together = conv(batch.x, batch.edge_index, **{name: batch[name] for name in names})
    torch.testing.assert_close(together, torch.cat(alone))


@pairwise(layer=LAYERS.keys(), options=OPTIONS, form=EDGE_INDEX_FORMS)
def test_edge_index_in_every_form(layer: str, options: dict[str, Any], form: str) -> None:
    edges = EDGES["random"]
    conv = make(layer, options)
    x, arguments = torch.randn(12, D, requires_grad=True), arguments_of(options, 40)
    edge_index, order = as_edge_index(edges, form)
    expected = conv(x, edges.edge_index, **arguments)
    out = conv(x, edge_index, **select(arguments, order))
    torch.testing.assert_close(out, expected)
    gradients = [torch.autograd.grad(value.square().sum(), x)[0] for value in (out, expected)]
    torch.testing.assert_close(*gradients)


@ALL_LAYERS
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint64"])
def test_integers_of_every_size(layer: str, dtype: str) -> None:
    options = OPTIONS["gated-types"]
    edge_index = EDGES["random"].edge_index
    conv, x, arguments = make(layer, options), torch.randn(12, D), arguments_of(options, 40)
    expected = conv(x, edge_index, **arguments)
    arguments["edge_type"] = arguments["edge_type"].to(getattr(torch, dtype))
    assert torch.equal(conv(x, edge_index.to(getattr(torch, dtype)), **arguments), expected)


@ALL_LAYERS
@pytest.mark.parametrize("decay", ["learned", "gated"])
def test_codes_are_one_hot_features(layer: str, decay: str) -> None:
    edges = EDGES["random"]
    by_type = make(layer, {"decay": decay, "num_edge_types": NUM_TYPES})
    by_attr = make(layer, {"decay": decay, "edge_dim": NUM_TYPES})
    by_attr.load_state_dict(
        {
            name.replace(".table", ".lin.weight"): value.t() if name.endswith(".table") else value
            for name, value in by_type.state_dict().items()
        }
    )
    x, edge_type = torch.randn(12, D), torch.randint(NUM_TYPES, (40,))
    out = by_attr(x, edges.edge_index, edge_attr=one_hot(edge_type, NUM_TYPES).float())
    torch.testing.assert_close(out, by_type(x, edges.edge_index, edge_type=edge_type))


@ALL_LAYERS
def test_edge_weights_may_be_a_column(layer: str) -> None:
    edges, conv, x, weight = EDGES["random"], make(layer), torch.randn(12, D), torch.rand(40)
    column = conv(x, edges.edge_index, edge_weight=weight.unsqueeze(1))
    assert torch.equal(column, conv(x, edges.edge_index, edge_weight=weight))


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("watched", [False, True], ids=["", "watched"])
def test_edge_weights_of_any_type(layer: str, options: dict[str, Any], watched: bool) -> None:
    """The result is of the layer's type, also with the float64 that numpy gives."""
    edges, conv, x, weight = (
        EDGES["random"],
        make(layer, options),
        torch.randn(12, D),
        torch.rand(40).double(),
    )
    if watched:
        watch(conv, "register_message_forward_hook")
    arguments = arguments_of(options, 40, weighted=False)
    out = conv(x, edges.edge_index, edge_weight=weight, **arguments)
    assert out.dtype == torch.float32
    assert torch.equal(out, conv(x, edges.edge_index, edge_weight=weight.float(), **arguments))


@ALL_LAYERS
@ALL_OPTIONS
def test_edge_weight_0_is_no_edge(layer: str, options: dict[str, Any]) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    kept = torch.arange(40)[::2]
    arguments["edge_weight"] = torch.zeros(40).index_fill(0, kept, 1.0)
    out = conv(x, edges.edge_index, **arguments)
    expected = conv(x, edges.edge_index[:, kept], **select(arguments, kept))
    torch.testing.assert_close(out, expected)


# Parameters


@ALL_LAYERS
@ALL_OPTIONS
def test_reset_draws_everything_again(layer: str, options: dict[str, Any]) -> None:
    conv = make(layer, {**options, "act": torch.nn.PReLU()} if layer == "wl" else options)

    def drawn(seed: int) -> dict[str, Tensor]:
        for parameter in conv.parameters():
            torch.nn.init.constant_(parameter, float("nan"))
        torch.manual_seed(seed)
        conv.reset_parameters()
        return {name: value.detach().clone() for name, value in conv.named_parameters()}

    first, again, other = drawn(1), drawn(1), drawn(2)
    for name, value in first.items():
        assert not value.isnan().any(), f"{name} keeps its old value"
        assert torch.equal(value, again[name])
        begins_at_a_constant = name.endswith(("logit", "act.weight"))
        assert torch.equal(value, other[name]) == begins_at_a_constant


@ALL_LAYERS
@ALL_OPTIONS
def test_state_travels_without_pickle(layer: str, options: dict[str, Any], tmp_path: Path) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    write_tensors(tmp_path / "state.safetensors", conv.state_dict(), {})
    fresh, lazy = make(layer, options), make(layer, options, in_channels=-1)
    for other in (fresh, lazy):
        other.load_state_dict(read_tensors(tmp_path / "state.safetensors")[0])
        assert torch.equal(other(x, edges.edge_index, **arguments), conv(x, edges.edge_index, **arguments))


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("copied", [False, True], ids=["itself", "its_copy"])
def test_lazy_sizes(layer: str, options: dict[str, Any], copied: bool) -> None:
    edges, sized = EDGES["random"], make(layer, options)
    lazy = make(layer, options, in_channels=-1).double()
    if copied:
        lazy = copy.deepcopy(lazy)
    arguments = arguments_of(options, 40, dtype=torch.float64)
    out = lazy(torch.randn(12, D, dtype=torch.float64), edges.edge_index, **arguments)
    assert out.dtype == torch.float64
    shapes = {name: (p.shape, torch.float64) for name, p in sized.named_parameters()}
    assert {name: (p.shape, p.dtype) for name, p in lazy.named_parameters()} == shapes


@ALL_LAYERS
def test_lazy_gates_without_a_step(layer: str) -> None:
    lazy = make(layer, {"decay": "gated", "walk_length": 1}, in_channels=-1)
    lazy(torch.randn(12, D), EDGES["random"].edge_index)
    assert not any(map(is_lazy, lazy.parameters()))


@ALL_LAYERS
def test_lazy_layer_says_which_weights_are_missing(layer: str) -> None:
    lazy = make(layer, in_channels=-1)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict"):
        lazy.load_state_dict({})
    lazy.load_state_dict({}, strict=False)
    lazy.load_state_dict(make(layer, in_channels=-1).state_dict())
    edge_index, num_nodes, _ = EDGES["random"]
    assert lazy(torch.randn(num_nodes, D), edge_index).shape == (num_nodes, K)


@ALL_LAYERS
@ALL_OPTIONS
def test_copies_are_independent(layer: str, options: dict[str, Any]) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    out = conv(x, edges.edge_index, **arguments)
    other = copy.deepcopy(conv)
    assert torch.equal(other(x, edges.edge_index, **arguments), out)
    randomize(other)
    assert torch.equal(conv(x, edges.edge_index, **arguments), out)


@pytest.mark.parametrize(
    ("conv", "text"),
    [
        (RandomWalkKernelConv(16, 32), "RandomWalkKernelConv(16, 32, walk_length=2, decay=1.0)"),
        (
            RandomWalkKernelConv((-1, -1), 32, decay="gated", compose="add"),
            "RandomWalkKernelConv((-1, -1), 32, walk_length=2, decay='gated', compose='add')",
        ),
        (DeepKernelConv(16, 32, 3, "learned"), "DeepKernelConv(16, 32, walk_length=3, decay='learned')"),
        (
            WLKernelConv(75, 175),
            "WLKernelConv(75, 175, num_iterations=4, walk_length=2, decay='gated')",
        ),
        (
            DeepKernelConv(16, 32, act=None, edge_dim=3, walks_only=True),
            "DeepKernelConv(16, 32, walk_length=2, decay=1.0, act=Identity(), edge_dim=3, walks_only=True)",
        ),
        (
            WLKernelConv(8, 8, 2, num_edge_types=5, act="tanh", readout="last", all_lengths=True),
            "WLKernelConv(8, 8, num_iterations=2, walk_length=2, decay='gated', num_edge_types=5, "
            "act=Tanh(), readout='last', all_lengths=True)",
        ),
    ],
    ids=["random_walk", "random_walk-bipartite", "deep", "wl", "deep-all", "wl-all"],
)
def test_repr(conv: KernelConv, text: str) -> None:
    assert repr(conv) == text
