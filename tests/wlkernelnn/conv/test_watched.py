"""Explainers, hooks and subclasses: whoever looks at messages, or changes them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import prune, remove_spectral_norm, spectral_norm
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import MeanAggregation, global_add_pool

from tests.checks.equations import randomize
from tests.checks.kernel_convs import (
    ALL_LAYERS,
    ALL_OPTIONS,
    LAYERS,
    OPTIONS,
    D,
    K,
    arguments_of,
    make,
    message_passings,
)
from tests.checks.pairwise import pairwise
from tests.inputs.graphs import EDGES, GRAPHS, Edges
from wlkernelnn import RandomWalkKernelConv
from wlkernelnn.conv.edge_map import EdgeMap
from wlkernelnn.conv.kernel_conv import KernelConv


@pairwise(layer=LAYERS.keys(), options=OPTIONS, edges=GRAPHS)
def test_watched_layer_computes_the_same(layer: str, options: dict[str, Any], edges: Edges) -> None:
    """Values and all gradients, also of an activation's own parameter, are those of the fast sums."""
    conv = make(layer, {**options, "act": torch.nn.PReLU()})
    randomize(conv)
    x = torch.randn(edges.num_sources, D, dtype=torch.float64, requires_grad=True)
    arguments = arguments_of(options, edges.edge_index.size(1), dtype=torch.float64)
    wanted = [x, arguments["edge_weight"].requires_grad_(), *conv.parameters()]
    if "edge_attr" in arguments:
        wanted.append(arguments["edge_attr"].requires_grad_())
    cotangent = torch.randn(edges.num_targets, K, dtype=torch.float64)

    def run() -> tuple[Tensor, ...]:
        out = conv(x, edges.edge_index, **arguments)
        return out, *torch.autograd.grad(out, wanted, cotangent, materialize_grads=True)

    fast = run()
    calls = []
    for module in message_passings(conv):
        module.register_message_forward_pre_hook(lambda *_: calls.append("message"))
    for came, expected in zip(run(), fast, strict=True):
        torch.testing.assert_close(came, expected, rtol=1e-10, atol=1e-10)
    assert calls


@pairwise(
    layer=LAYERS.keys(),
    options=OPTIONS,
    register=[
        f"register_{step}_forward_{when}hook"
        for step in ("propagate", "message", "aggregate")
        for when in ("pre_", "")
    ],
)
def test_every_hook_is_called(layer: str, options: dict[str, Any], register: str) -> None:
    edges, conv = EDGES["random"], make(layer, options)
    calls = []
    for module in message_passings(conv):
        getattr(module, register)(lambda module, *_: calls.append(type(module)))
    conv(torch.randn(12, D), edges.edge_index, **arguments_of(options, 40))
    assert set(calls) == {type(module) for module in message_passings(conv)}


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("step", ["propagate", "message", "aggregate"])
def test_hooks_can_change_what_they_see(layer: str, options: dict[str, Any], step: str) -> None:
    """Twice every message, or twice their sum, is the result of twice every weight."""
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    doubled = {**arguments, "edge_weight": 2 * arguments["edge_weight"]}
    expected = conv(x, edges.edge_index, **doubled)
    handles = [
        getattr(module, f"register_{step}_forward_hook")(lambda module, inputs, out: 2 * out)
        for module in message_passings(conv)
    ]
    torch.testing.assert_close(conv(x, edges.edge_index, **arguments), expected)
    for handle in handles:
        handle.remove()
    torch.testing.assert_close(conv(x, edges.edge_index, **doubled), expected)


@ALL_LAYERS
@ALL_OPTIONS
def test_masks_of_explainers_stand_in_the_users_order(layer: str, options: dict[str, Any]) -> None:
    """A mask on the edges as they came acts like edge weights, with the same gradients."""
    edge_index = EDGES["random"].edge_index
    edge_index = edge_index[:, edge_index[0] != edge_index[1]]  # PyG never masks self loops
    conv, x = make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, edge_index.size(1), weighted=False)
    plain = conv(x, edge_index, **arguments)
    mask = torch.nn.Parameter(torch.randn(edge_index.size(1)))
    set_masks(conv, mask, edge_index)
    masked = conv(x, edge_index, **arguments)
    (gradient,) = torch.autograd.grad(masked.square().sum(), mask)
    clear_masks(conv)
    weighted = conv(x, edge_index, edge_weight=mask.sigmoid(), **arguments)
    torch.testing.assert_close(masked, weighted)
    torch.testing.assert_close(gradient, torch.autograd.grad(weighted.square().sum(), mask)[0])
    assert bool(gradient.all())
    torch.testing.assert_close(conv(x, edge_index, **arguments), plain)


def edge_maps(conv: KernelConv) -> list[EdgeMap]:
    return [module for module in conv.modules() if isinstance(module, EdgeMap)]


@ALL_LAYERS
@pytest.mark.parametrize("options", [OPTIONS["gated-types"], OPTIONS["learned-attr"]], ids=["types", "attr"])
def test_hooks_of_maps_of_edges_change_them(layer: str, options: dict[str, Any]) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    handles = [
        module.register_forward_hook(lambda module, inputs, out: 2 * out) for module in edge_maps(conv)
    ]
    doubled = conv(x, edges.edge_index, **arguments)
    for handle in handles:
        handle.remove()
    with torch.no_grad():
        for module in edge_maps(conv):
            (weight,) = module.parameters()
            weight *= 2
    torch.testing.assert_close(doubled, conv(x, edges.edge_index, **arguments))
    assert handles


@ALL_LAYERS
def test_pruned_and_normalised_tables_of_edges(layer: str) -> None:
    """The older ``torch.nn.utils`` compute a weight in a hook before the call."""
    options = OPTIONS["gated-types"]
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    other = make(layer, options)
    for module in edge_maps(conv) + edge_maps(other):
        prune.l1_unstructured(module, "table", 0.5)
    optimizer = torch.optim.SGD(conv.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        conv(x, edges.edge_index, **arguments).square().mean().backward()
        optimizer.step()
    trained = conv(x, edges.edge_index, **arguments)
    assert not torch.equal(trained, other(x, edges.edge_index, **arguments))
    other.load_state_dict(conv.state_dict())
    torch.testing.assert_close(other(x, edges.edge_index, **arguments), trained)
    for module in edge_maps(other):
        prune.remove(module, "table")
        spectral_norm(module, "table")
    normalised = other.eval()(x, edges.edge_index, **arguments)
    normalised.square().mean().backward()
    assert all(bool(module.table_orig.grad.any()) for module in edge_maps(other))
    for module in edge_maps(other):
        remove_spectral_norm(module, "table")  # it leaves the last table
    torch.testing.assert_close(other(x, edges.edge_index, **arguments), normalised)


class Doubled(RandomWalkKernelConv):
    """A user's layer with messages of its own."""

    def message(self, c_j: Tensor) -> Tensor:
        return 2 * c_j


def test_messages_of_a_subclass_are_taken() -> None:
    edge_index, conv, x = EDGES["random"].edge_index, Doubled(D, K), torch.randn(12, D)
    plain = RandomWalkKernelConv(D, K)
    plain.load_state_dict(conv.state_dict())
    torch.testing.assert_close(conv(x, edge_index), 2 * plain(x, edge_index))


class HalvedSums(RandomWalkKernelConv):
    """A user's layer with sums of its own."""

    def aggregate(self, inputs: Tensor, index: Tensor, dim_size: int | None = None) -> Tensor:
        return super().aggregate(inputs, index, dim_size=dim_size) / 2


class HalvedResults(RandomWalkKernelConv):
    """A user's layer that changes what was summed."""

    def update(self, inputs: Tensor) -> Tensor:
        return inputs / 2


class HalvedPropagate(RandomWalkKernelConv):
    """A user's layer that changes what was passed."""

    def propagate(self, edge_index: Tensor, size: Any = None, **values: Any) -> Tensor:
        return super().propagate(edge_index, size=size, **values) / 2


@pytest.mark.parametrize("kind", [HalvedSums, HalvedResults, HalvedPropagate])
def test_sums_and_updates_of_a_subclass_are_taken(kind: type[RandomWalkKernelConv]) -> None:
    edge_index, conv, x = EDGES["random"].edge_index, kind(D, K), torch.randn(12, D)
    plain = RandomWalkKernelConv(D, K)
    plain.load_state_dict(conv.state_dict())
    assert conv.watched
    assert not plain.watched
    torch.testing.assert_close(conv(x, edge_index), plain(x, edge_index) / 2)


def test_another_aggregation_is_taken() -> None:
    edge_index, conv, x = EDGES["random"].edge_index, RandomWalkKernelConv(D, K), torch.randn(12, D)
    total = conv(x, edge_index)
    conv.aggr_module = MeanAggregation()
    degree = edge_index[1].bincount(minlength=12).clamp(min=1).unsqueeze(1)
    torch.testing.assert_close(conv(x, edge_index), total / degree)


class Classifier(torch.nn.Module):
    """A layer, a sum over each graph, and a linear map."""

    def __init__(self, conv: KernelConv) -> None:
        super().__init__()
        self.conv = conv
        self.lin = torch.nn.Linear(K, 2)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, **arguments: Tensor) -> Tensor:
        out = self.conv(x, edge_index, **arguments)
        return self.lin(global_add_pool(out, batch, size=2))


@ALL_LAYERS
@pytest.mark.parametrize("options", [OPTIONS["constant"], OPTIONS["gated-types"]], ids=["constant", "gated"])
def test_gnn_explainer(layer: str, options: dict[str, Any]) -> None:
    edge_index = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 1], [1, 0, 1, 2, 5, 4, 5, 3]])
    explainer = Explainer(
        Classifier(make(layer, options)),
        algorithm=GNNExplainer(epochs=3),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "graph", "return_type": "raw"},
    )
    batch = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    arguments = arguments_of(options, edge_index.size(1), weighted=False)
    # Only the first graph is asked about: edges of the other must not matter.
    explanation = explainer(torch.randn(7, D), edge_index, index=0, batch=batch, **arguments)
    assert explanation.node_mask.shape == (7, D)
    assert explanation.edge_mask.shape == (8,)
    matters = torch.tensor([True, True, True, True, False, False, False, True])
    assert bool((explanation.edge_mask[matters] > 0).all())
    assert not explanation.edge_mask[~matters].any()
