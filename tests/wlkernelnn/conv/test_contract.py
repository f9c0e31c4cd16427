"""What PyG expects of a layer, for all layers alike."""

from __future__ import annotations

import copy
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import HeteroConv, MeanAggregation, MessagePassing, global_add_pool, to_hetero
from torch_geometric.testing import assert_module

from tests.equations import randomize
from tests.graphs import EDGE_INDEX_FORMS, EDGES, GRAPHS, Edges, as_edge_index, random_edges
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv
from wlkernelnn.files import read_tensors, write_tensors

D, K, NUM_TYPES, EDGE_DIM = 3, 8, 4, 2

LAYERS: dict[str, tuple[type[KernelConv], dict[str, Any]]] = {
    "random_walk": (RandomWalkKernelConv, {"walk_length": 3, "act": "tanh"}),
    "deep": (DeepKernelConv, {"walk_length": 3, "act": "tanh"}),
    "wl": (WLKernelConv, {"num_iterations": 2, "act": "tanh"}),
}
ALL_LAYERS = pytest.mark.parametrize("layer", LAYERS)

# The ways through the layers: sums of states, sums of messages with tables, and with floats.
OPTIONS: dict[str, dict[str, Any]] = {
    "constant": {"decay": 0.7},
    "constant-types": {"decay": 0.7, "num_edge_types": NUM_TYPES},
    "gated": {"decay": "gated"},
    "gated-types": {"decay": "gated", "num_edge_types": NUM_TYPES},
    "learned-attr": {"decay": "learned", "edge_dim": EDGE_DIM},
}
ALL_OPTIONS = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def make(layer: str, options: dict[str, Any] | None = None, in_channels: Any = D) -> KernelConv:
    kind, defaults = LAYERS[layer]
    return kind(in_channels, K, **defaults | (options or {}))


def arguments_of(
    options: dict[str, Any], num_edges: int, weighted: bool = True, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Random edge arguments for a layer made with ``options``."""
    arguments = {}
    if weighted:
        arguments["edge_weight"] = torch.rand(num_edges, dtype=dtype)
    if "num_edge_types" in options:
        arguments["edge_type"] = torch.randint(NUM_TYPES, (num_edges,))
    if "edge_dim" in options:
        arguments["edge_attr"] = torch.randn(num_edges, EDGE_DIM, dtype=dtype)
    return arguments


def select(arguments: dict[str, Tensor], index: Tensor) -> dict[str, Tensor]:
    return {name: value[index] for name, value in arguments.items()}


# Laws


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
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


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("form", EDGE_INDEX_FORMS)
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
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32], ids=str)
def test_integers_of_every_size(layer: str, dtype: torch.dtype) -> None:
    options = OPTIONS["gated-types"]
    edge_index = EDGES["random"].edge_index
    conv, x, arguments = make(layer, options), torch.randn(12, D), arguments_of(options, 40)
    expected = conv(x, edge_index, **arguments)
    arguments["edge_type"] = arguments["edge_type"].to(dtype)
    assert torch.equal(conv(x, edge_index.to(dtype), **arguments), expected)


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
    ],
    ids=["random_walk", "random_walk-bipartite", "deep", "wl"],
)
def test_repr(conv: KernelConv, text: str) -> None:
    assert repr(conv) == text


# Explainers and hooks


def message_passings(conv: KernelConv) -> list[MessagePassing]:
    return [module for module in conv.modules() if isinstance(module, MessagePassing)]


def watch(conv: KernelConv, register: str) -> None:
    """Put hooks on a layer (and on the walks inside it) that change nothing."""
    for module in message_passings(conv):
        getattr(module, register)(lambda *_: None)


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)
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


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize(
    "register",
    [
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


@pytest.mark.parametrize("kind", [HalvedSums, HalvedResults])
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


# Modes of PyTorch


def sized_inputs(options: dict[str, Any], seed: int, num_nodes: int, num_edges: int, form: str) -> tuple:
    edge_index, order = as_edge_index(random_edges(num_nodes, num_nodes, num_edges, seed), form)
    arguments = select(arguments_of(options, num_edges), order)
    return torch.randn(num_nodes, D, requires_grad=True), edge_index, arguments


@pytest.mark.parametrize(
    ("layer", "options", "form", "backend"),
    [
        pytest.param("random_walk", OPTIONS["gated-types"], "plain", "inductor", id="random_walk-inductor"),
        pytest.param("deep", OPTIONS["constant"], "by_col_with_pointers", "aot_eager", id="deep"),
        pytest.param("wl", OPTIONS["gated-types"], "by_col_with_pointers", "aot_eager", id="wl"),
    ],
)
def test_compiles_once_for_graphs_of_all_sizes(
    layer: str, options: dict[str, Any], form: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Torch traces its compilations once this logger has a handler, which pytest gives it, and a trace fixes
    # the sizes that it prints.
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    torch.compiler.reset()
    conv = make(layer, options)
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend=backend)

    def run(function: Callable[..., Tensor], x: Tensor, edge_index: Tensor, arguments: dict) -> list[Tensor]:
        out = function(x, edge_index, **arguments)
        return [out, *torch.autograd.grad(out.square().sum(), [x, *conv.parameters()])]

    first, *others = (
        sized_inputs(options, seed, num_nodes, num_edges, form)
        for seed, (num_nodes, num_edges) in enumerate([(12, 40), (20, 61), (7, 15)])
    )
    torch.testing.assert_close(run(compiled, *first), run(conv, *first))
    with torch.compiler.set_stance("fail_on_recompile"):
        came = [run(compiled, *inputs) for inputs in others]
    for result, inputs in zip(came, others, strict=True):
        torch.testing.assert_close(result, run(conv, *inputs))


@ALL_LAYERS
@ALL_OPTIONS
def test_autocast(layer: str, options: dict[str, Any]) -> None:
    edge_index = EDGES["random"].edge_index
    conv, x, arguments = make(layer, options), torch.randn(12, D), arguments_of(options, 40)
    out = conv(x, edge_index, **arguments)
    gradients = torch.autograd.grad(out.square().sum(), list(conv.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        rough = conv(x, edge_index, **arguments)
        watched = copy.deepcopy(conv)
        watch(watched, "register_message_forward_hook")
        rough_watched = watched(x, edge_index, **arguments)
    rough_gradients = torch.autograd.grad(rough.float().square().sum(), list(conv.parameters()))
    for came, expected in zip([rough, rough_watched, *rough_gradients], [out, out, *gradients], strict=True):
        assert bool((came.float() - expected).norm() < 0.1 * expected.norm())


@ALL_LAYERS
@ALL_OPTIONS
@pytest.mark.parametrize("form", EDGE_INDEX_FORMS)
def test_inference_mode(layer: str, options: dict[str, Any], form: str) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    expected = conv(x, edges.edge_index, **arguments)
    made_before, order = as_edge_index(edges, form)
    with torch.inference_mode():
        made_inside, _ = as_edge_index(edges, form)
        for edge_index in (made_before, made_inside):
            out = conv(x, edge_index, **select(arguments, order))
            torch.testing.assert_close(out, expected.detach())


@ALL_LAYERS
@pytest.mark.parametrize("options", [OPTIONS["constant"], OPTIONS["gated"]], ids=["constant", "gated"])
def test_second_derivatives(layer: str, options: dict[str, Any]) -> None:
    """Of a gradient with respect to the input, as forces are: by the weights."""
    edge_index = EDGES["self_loops"].edge_index
    conv = make(layer, options)
    randomize(conv)
    x = torch.randn(3, D, dtype=torch.float64, requires_grad=True)
    weight = next(conv.parameters())

    def force() -> Tensor:
        (gradient,) = torch.autograd.grad(conv(x, edge_index).sum(), x, create_graph=True)
        return gradient.square().sum()

    (came,) = torch.autograd.grad(force(), weight)
    step, direction = 1e-6, torch.randn_like(weight)
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * step * direction
        ends.append(float(force().detach()))
        with torch.no_grad():
            weight -= sign * step * direction
    slope = torch.tensor((ends[0] - ends[1]) / (2 * step), dtype=torch.float64)
    torch.testing.assert_close((came * direction).sum(), slope, rtol=1e-5, atol=1e-7)


# Graphs with several kinds of nodes


BIPARTITE: dict[str, tuple[type[KernelConv], dict[str, Any]]] = {
    "random_walk": (RandomWalkKernelConv, {"decay": 0.7}),
    "random_walk-gated": (RandomWalkKernelConv, {"decay": "gated"}),
    "deep": (DeepKernelConv, {}),
    "wl": (WLKernelConv, {"num_iterations": 1}),
}


@pytest.mark.parametrize(("kind", "options"), BIPARTITE.values(), ids=BIPARTITE)
@pytest.mark.parametrize("edges", ["more_sources", "more_targets", "no_sources", "no_targets"])
def test_bipartite_graphs(kind: type[KernelConv], options: dict[str, Any], edges: str) -> None:
    edge_index, num_sources, num_targets = EDGES[edges]
    x = torch.randn(num_sources, 4, requires_grad=True), torch.randn(num_targets, 2, requires_grad=True)
    conv = kind((4, 2), K, **options)
    out = assert_module(conv, x, edge_index, expected_size=(num_targets, K), test_sparse_layouts=[])
    gradients = torch.autograd.grad(out.square().sum(), x)
    watch(conv, "register_message_forward_hook")
    watched = conv(x, edge_index)
    torch.testing.assert_close(watched, out)
    torch.testing.assert_close(torch.autograd.grad(watched.square().sum(), x), gradients)


@pytest.fixture
def hetero_data() -> HeteroData:
    data = HeteroData()
    data["atom"].x = torch.randn(9, 4)
    data["ring"].x = torch.randn(3, 2)
    data["atom", "in", "ring"].edge_index = random_edges(9, 3, 12).edge_index
    data["ring", "has", "atom"].edge_index = data["atom", "in", "ring"].edge_index.flip(0)
    data["atom", "bond", "atom"].edge_index = random_edges(9, 9, 14).edge_index
    return data


@pytest.mark.parametrize(("kind", "options"), BIPARTITE.values(), ids=BIPARTITE)
def test_to_hetero(kind: type[KernelConv], options: dict[str, Any], hetero_data: HeteroData) -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1 = kind((-1, -1), 8, **options)
            self.conv2 = kind((-1, -1), K, **options)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return self.conv2(self.conv1(x, edge_index).relu(), edge_index)

    network = to_hetero(Network(), hetero_data.metadata())
    out = network(hetero_data.x_dict, hetero_data.edge_index_dict)
    assert {name: value.shape for name, value in out.items()} == {"atom": (9, K), "ring": (3, K)}
    sum(value.square().sum() for value in out.values()).backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_hetero_conv(hetero_data: HeteroData) -> None:
    convs = {edge_type: RandomWalkKernelConv((-1, -1), K) for edge_type in hetero_data.edge_types}
    out = HeteroConv(convs)(hetero_data.x_dict, hetero_data.edge_index_dict)
    expected = convs["atom", "in", "ring"](
        (hetero_data["atom"].x, hetero_data["ring"].x), hetero_data["atom", "in", "ring"].edge_index
    )
    torch.testing.assert_close(out["ring"], expected)


# Errors


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (RandomWalkKernelConv, {"walk_length": 0}, "walk_length must be an integer of at least 1, got 0"),
        (RandomWalkKernelConv, {"compose": "concat"}, 'compose must be "mul" or "add", got \'concat\''),
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
        (WLKernelConv, {"readout": "mean"}, 'readout must be "sum", "last" or "cat", got \'mean\''),
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
    with pytest.raises(ValueError, match="all_lengths needs one kind of nodes"):
        conv((torch.zeros(7, D), torch.zeros(7, D)), EDGE_INDEX)


def test_bipartite_graphs_need_features_of_the_targets() -> None:
    with pytest.raises(ValueError, match=r"needs x .* \(or a pair of such\), got nothing"):
        RandomWalkKernelConv((D, D), K)((torch.zeros(7, D), None), EDGE_INDEX)


def test_nobody_reads_beyond_an_edge_index_that_lies() -> None:
    """Nodes out of range are found in an EdgeIndex as well."""
    edge_index = EdgeIndex([[0, 1], [1, 9]], sort_order="col")
    with pytest.raises(IndexError, match="target nodes 1 … 9"):
        RandomWalkKernelConv(D, K)(torch.zeros(7, D), edge_index)
