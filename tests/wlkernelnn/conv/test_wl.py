from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from tests.checks.equations import matrix_of, randomize, step_factors, sums_over_walks, walk_states
from tests.checks.pairwise import pairwise
from tests.inputs.graphs import EDGES, GRAPHS, Edges, random_edges
from wlkernelnn import RandomWalkKernelConv, WLKernelConv

D, K, NUM_TYPES, EDGE_DIM = 3, 6, 4, 2

ON_GRAPHS = pytest.mark.parametrize("edges", GRAPHS.values(), ids=GRAPHS)


def make(**options: object) -> WLKernelConv:
    conv = WLKernelConv(D, K, **{"act": "tanh", "num_iterations": 3} | options)  # type: ignore[arg-type]
    randomize(conv)
    return conv


def features(edges: Edges) -> Tensor:
    return torch.randn(edges.num_sources, D, dtype=torch.float64)


def literal_relabelling(
    conv: WLKernelConv, h: Tensor, edges: Edges, edge_weight: Tensor | None, edge_features: Tensor | None
) -> Tensor:
    """σ(U_1 h_v + U_2 Σ_u w_uv σ(V h_u + V_e e_uv)), edge by edge."""
    assert conv.lin_self is not None
    assert conv.lin_neighbors is not None
    assert conv.lin_message is not None
    total = torch.zeros_like(h)
    for edge, (u, v) in enumerate(edges.edge_index.t().tolist()):
        message = conv.lin_message.weight @ h[u] + conv.lin_message.bias
        if edge_features is not None:
            message = message + edge_features[edge] @ matrix_of(conv.edge_message)
        weight = 1.0 if edge_weight is None else edge_weight[edge]
        total[v] += weight * conv.act(message)
    own = h @ conv.lin_self.weight.t() + conv.lin_self.bias
    return conv.act(own + total @ conv.lin_neighbors.weight.t())


def literal(
    conv: WLKernelConv,
    x: Tensor,
    edges: Edges,
    edge_weight: Tensor | None = None,
    edge_features: Tensor | None = None,
) -> Tensor:
    h, outs = x, []
    for iteration in range(conv.num_iterations):
        if iteration > 0:
            h = literal_relabelling(conv, h, edges, edge_weight, edge_features)
        walk = conv.walks[iteration if len(conv.walks) > 1 else 0]
        assert isinstance(walk, RandomWalkKernelConv)
        factors = step_factors(walk, h, edges.edge_index, edge_weight, edge_features)
        states = walk_states(h, [lin.weight for lin in walk.lins], edges.edge_index, factors)
        outs.append(torch.stack(states).sum(0) if walk.all_lengths else states[-1])
    if conv.readout == "last":
        return outs[-1]
    return torch.cat(outs, dim=1) if conv.readout == "cat" else torch.stack(outs).sum(0)


@pairwise(
    edges=GRAPHS,
    shared=[False, True],
    readout=["sum", "last", "cat"],
    options=[
        {"num_iterations": 1},
        {"num_iterations": 3},
        {"num_iterations": 2, "walk_length": 3, "decay": 0.6},
        {"num_iterations": 3, "walk_length": 1, "decay": "learned"},
        {"num_iterations": 2, "all_lengths": True, "gate_scale": 10.0},
    ],
)
def test_section_3_4(edges: Edges, options: dict[str, object], readout: str, shared: bool) -> None:
    conv = make(readout=readout, share_walk_weights=shared, **options)
    x = features(edges)
    out = conv(x, edges.edge_index)
    assert out.shape == (edges.num_targets, K)
    torch.testing.assert_close(out, literal(conv, x, edges), rtol=1e-9, atol=1e-9)


@pairwise(
    edges=GRAPHS,
    weighted=[False, True],
    edge_features=["plain", "edge_type", "edge_attr"],
    decay=[0.5, "gated"],
    act={"tanh": "tanh", "prelu": torch.nn.PReLU()},
)
def test_edge_features_and_weights(
    edges: Edges, act: str | torch.nn.Module, decay: float | str, edge_features: str, weighted: bool
) -> None:
    num_edges = edges.edge_index.size(1)
    edge_weight = torch.rand(num_edges, dtype=torch.float64) if weighted else None
    edge_type, edge_attr = torch.randint(NUM_TYPES, (num_edges,)), torch.randn(num_edges, EDGE_DIM).double()
    options, arguments, known = {
        "plain": ({}, {}, None),
        "edge_type": (
            {"num_edge_types": NUM_TYPES},
            {"edge_type": edge_type},
            one_hot(edge_type, NUM_TYPES).double(),
        ),
        "edge_attr": ({"edge_dim": EDGE_DIM}, {"edge_attr": edge_attr}, edge_attr),
    }[edge_features]
    conv, x = make(decay=decay, act=act, walk_length=3, **options), features(edges)
    out = conv(x, edges.edge_index, edge_weight=edge_weight, **arguments)
    expected = literal(conv, x, edges, edge_weight, known)
    torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)


@ON_GRAPHS
@pytest.mark.parametrize("walk_length", [1, 2, 3])
def test_proposition_2(edges: Edges, walk_length: int) -> None:
    """Σ_v out[v] is the sum over l of the walk kernels of the graph relabelled l − 1 times."""
    conv, x = make(walk_length=walk_length, decay=0.6), features(edges)
    steps = torch.full((edges.edge_index.size(1), K), 0.6, dtype=torch.float64)
    kernels, labels = [], x
    for iteration, walk in enumerate(conv.walks):
        if iteration > 0:
            labels = conv.relabel(labels, edges.edge_index)
        weights = [lin.weight for lin in walk.lins]  # type: ignore[union-attr]
        sums = sums_over_walks(labels, weights, edges.edge_index, [steps] * (walk_length - 1))
        kernels.append(sums.sum(0))
    out = conv(x, edges.edge_index)
    torch.testing.assert_close(out.sum(0), torch.stack(kernels).sum(0), rtol=1e-9, atol=1e-9)


def test_relabel_takes_what_forward_takes() -> None:
    edges = EDGES["random"]
    conv, x = make(num_edge_types=NUM_TYPES), features(edges)
    edge_type, edge_weight = torch.randint(NUM_TYPES, (40,)), torch.rand(40, dtype=torch.float64)
    came = conv.relabel(x, edges.edge_index, edge_type=edge_type, edge_weight=edge_weight)
    known = one_hot(edge_type, NUM_TYPES).double()
    torch.testing.assert_close(came, literal_relabelling(conv, x, edges, edge_weight, known))


def test_a_lazy_layer_can_relabel_first() -> None:
    edges = EDGES["random"]
    conv = WLKernelConv(-1, K)
    assert conv.relabel(torch.randn(12, D), edges.edge_index).shape == (12, D)
    assert conv(torch.randn(12, D), edges.edge_index).shape == (12, K)


def test_a_refused_call_leaves_a_lazy_layer_lazy() -> None:
    edges = EDGES["random"]
    conv = WLKernelConv(-1, K)
    for call in (conv, conv.relabel):
        with pytest.raises(ValueError, match="x of shape"):
            call(torch.randn(12), edges.edge_index)
    assert conv(torch.randn(12, D), edges.edge_index).shape == (12, K)


def test_a_lazy_layer_says_which_weights_it_cannot_take() -> None:
    relabelling = {
        name: value for name, value in WLKernelConv(D, K).state_dict().items() if name[:4] == "lin_"
    }
    came = WLKernelConv(-1, K).load_state_dict(relabelling, strict=False)
    assert came.unexpected_keys == list(relabelling)


def test_widths_of_numpy() -> None:
    edges = EDGES["random"]
    conv = WLKernelConv(np.int64(D), np.int64(K))  # type: ignore[arg-type]
    assert conv(torch.randn(12, D), edges.edge_index).shape == (12, K)
    assert type(conv.in_channels) is int


def test_one_iteration_has_no_relabelling() -> None:
    conv = make(num_iterations=1)
    assert {name.split(".")[0] for name, _ in conv.named_parameters()} == {"walks"}
    with pytest.raises(ValueError, match="num_iterations=1 never relabels"):
        conv.relabel(features(EDGES["random"]), EDGES["random"].edge_index)


@pytest.mark.parametrize(
    ("options", "num_walks"),
    [
        ({}, 3),
        ({"share_walk_weights": True}, 1),
        ({"readout": "last"}, 1),
        ({"readout": "cat"}, 3),
        ({"readout": "cat", "share_walk_weights": True}, 1),
    ],
    ids=["sum", "shared", "last", "cat", "cat-shared"],
)
def test_every_parameter_is_used(options: dict[str, object], num_walks: int) -> None:
    edges = EDGES["random"]
    conv = make(num_edge_types=NUM_TYPES, **options)
    assert len(conv.walks) == num_walks
    conv(features(edges), edges.edge_index, edge_type=torch.arange(40) % NUM_TYPES).square().sum().backward()
    unused = [name for name, p in conv.named_parameters() if p.grad is None or not p.grad.any()]
    assert not unused


def test_size_of_the_released_network() -> None:
    """263k with an encoder of 82 columns and a head Linear-ReLU-Linear, 201k without gates."""
    release = {"num_iterations": 4, "edge_dim": 6, "readout": "last", "share_walk_weights": True}
    gated = WLKernelConv(175, 175, decay="gated", gate_scale=10.0, **release)  # type: ignore[arg-type]
    constant = WLKernelConv(175, 175, decay=0.5, **release)  # type: ignore[arg-type]
    walks, relabelling, bonds = 2 * 175**2, 3 * 175**2 + 2 * 175, 6 * 175
    gate = 2 * 175**2 + 175

    def size(conv: WLKernelConv) -> int:
        return sum(p.numel() for p in conv.parameters())

    assert size(gated) == walks + gate + relabelling + 3 * bonds
    assert size(constant) == walks + relabelling + 2 * bonds
    encoder, head = 82 * 175, (175**2 + 175) + (175 + 1)
    assert round((size(gated) + encoder + head) / 1000) == 263
    assert round((size(constant) + encoder + head) / 1000) == 201


# Weisfeiler-Lehman colours


def wl_colours(edge_index: Tensor, edge_type: Tensor, labels: list, rounds: int) -> list:
    """Colours of all nodes by their definition: one's own, and the multiset of the in-neighbours'."""
    colours = list(labels)
    for _ in range(rounds):
        neighbours: list[list] = [[] for _ in colours]
        for (u, v), code in zip(edge_index.t().tolist(), edge_type.tolist(), strict=True):
            neighbours[v].append((colours[u], code))
        signatures = [(own, tuple(sorted(seen))) for own, seen in zip(colours, neighbours, strict=True)]
        numbers = {signature: number for number, signature in enumerate(sorted(set(signatures)))}
        colours = [numbers[signature] for signature in signatures]
    return colours


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("num_iterations", "walk_length"), [(1, 2), (2, 2), (3, 2), (1, 3), (2, 3)], ids=lambda n: str(n)
)
def test_equal_colours_give_equal_outputs(num_iterations: int, walk_length: int, seed: int) -> None:
    """Colours of depth L + n − 2 decide a node's output, and for generic weights its output tells them."""
    edge_index, num_nodes, _ = random_edges(60, 60, 75, seed)
    labels, edge_type = torch.arange(num_nodes) % 2, torch.arange(75) % 2
    depth = num_iterations + walk_length - 2
    colours = wl_colours(edge_index, edge_type, labels.tolist(), depth)
    assert len(set(labels.tolist())) < len(set(colours)) < num_nodes
    conv = make(num_iterations=num_iterations, walk_length=walk_length, num_edge_types=2, all_lengths=True)
    table = torch.randn(2, D, dtype=torch.float64)
    out = conv(table[labels], edge_index, edge_type=edge_type)
    same_colour = torch.tensor(colours).unsqueeze(0) == torch.tensor(colours).unsqueeze(1)
    distance = torch.cdist(out, out, p=torch.inf, compute_mode="donot_use_mm_for_euclid_dist")
    assert bool((distance[same_colour] < 1e-10).all())
    assert bool((distance[~same_colour] > 1e-10).all())


def test_regular_graphs_look_alike() -> None:
    """One ring of six nodes and two rings of three: no Weisfeiler-Lehman network tells them apart."""

    def ring(first: int, size: int) -> list[tuple[int, int]]:
        pairs = [(first + i, first + (i + 1) % size) for i in range(size)]
        return pairs + [(v, u) for u, v in pairs]

    conv, x = make(num_iterations=4), torch.ones(6, D, dtype=torch.float64)
    hexagon, triangles = (torch.tensor(e).t() for e in (ring(0, 6), ring(0, 3) + ring(3, 3)))
    torch.testing.assert_close(conv(x, hexagon), conv(x, triangles), rtol=1e-12, atol=1e-12)
    x[0] += 1
    assert not torch.allclose(conv(x, hexagon).sum(0), conv(x, triangles).sum(0))


def test_bipartite_means_one_round_of_walks_of_two_nodes() -> None:
    edge_index, num_sources, num_targets = EDGES["more_targets"]
    x = torch.randn(num_sources, 3), torch.randn(num_targets, 2)
    conv = WLKernelConv((3, 2), K, num_iterations=1)
    (walk,) = conv.walks
    assert torch.equal(conv(x, edge_index), walk(x, edge_index))


@pytest.mark.parametrize("act", [torch.nn.Dropout(0.5), "rrelu"], ids=str)
@pytest.mark.parametrize("num_edge_types", [None, 2])
def test_gradients_of_an_activation_that_draws(
    act: str | torch.nn.Module, num_edge_types: int | None
) -> None:
    """They are of what was drawn, not of another draw."""
    edge_index, num_nodes, _ = EDGES["random"]
    conv = WLKernelConv(3, 4, 2, act=act, num_edge_types=num_edge_types).double()
    edge_type = None if num_edge_types is None else torch.randint(num_edge_types, (edge_index.size(1),))

    def run(x: Tensor) -> Tensor:
        torch.manual_seed(1)
        return conv(x, edge_index, edge_type=edge_type)

    assert torch.autograd.gradcheck(run, torch.randn(num_nodes, 3, dtype=torch.float64, requires_grad=True))
