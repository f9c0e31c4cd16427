"""Sequence models on trees and other directed acyclic graphs, beside the recursion over their nodes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from tests.inputs.strings import drawn, normal, shuffled
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    Bidirectional,
    MergingRRNN,
    RecurrentKernelMachine,
    StringKernelConv,
    StringKernelNetwork,
    StringModel,
    StringRNN,
    TextNetwork,
    WeightDrop,
    path_graph,
)
from wlkernelnn.sequence.layers.recurrent_kernels import RECURRENT_KERNELS, PolynomialKernel
from wlkernelnn.sequence.layers.string_model import State
from wlkernelnn.testing.string_laws import parts

D, K = 3, 4
MODELS: dict[str, Callable[[], StringModel]] = {
    "string_kernel": lambda: StringKernelConv(D, K),
    "feedback": lambda: StringKernelConv(D, K, feedback=True, dropout=0.3),
    "network": lambda: StringKernelNetwork(D, K, 2, jumping="cat"),
    "rkm": lambda: RKM(D, K),
    "rkm-at-once": lambda: RKM(D, K, "linear_gated", feedback=False),
    "rkm-windows": lambda: RKM(D, K, ngram=3),
    "rkm-dilated": lambda: RKM(D, K, "lstm", ngram=(1, 2, 3, 2), dilation=2, layer_norm="state"),
    "rkm-wavelets": lambda: RKM(D, K, "rkm_cifg", ngram=4, filters="sync"),
    "cnn": lambda: RKM(D, K, "cnn", ngram=3),
    "machine": lambda: RecurrentKernelMachine(D, K, "polynomial"),
    "machine-windows": lambda: RecurrentKernelMachine(D, K, "gaussian", ngram=3, feedback=True),
    "machine-linear": lambda: RecurrentKernelMachine(D, K, "linear", ngram=2),
    "rrnn": lambda: RRNN(D, K, (1, 2), 2),
    "rrnn-merging": lambda: MergingRRNN(D, K, (2, 1, 1), 2),
    "rrnn-gru": lambda: RRNNGRU(D, K, 2),
    "rnn": lambda: StringRNN(WeightDrop(RKM(D, K, ngram=2), "lin_h.weight", 0.5), 2),
}
ALL = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)


def graph_of(weighted: bool = True) -> Data:
    """0 and 1 under 3 under 4, and 2 under 3 and 4; nothing; and 6 under 5."""
    edges = torch.tensor([[0, 1, 2, 2, 3, 6], [3, 3, 3, 4, 4, 5]])
    graph = Data(x=normal(7, D), edge_index=edges, ptr=torch.tensor([0, 5, 5, 7]))
    if weighted:
        graph.edge_weight = torch.tensor([0.3, -0.2, 0.5, 0.6, 0.4, 0.9], dtype=torch.float64)
    return graph


def zipped(combine: Callable[..., Tensor], states: list[State]) -> State:
    """The same of every tensor of some states."""
    if isinstance(states[0], Tensor):
        return combine(states)
    return tuple(zipped(combine, [*some]) for some in zip(*states, strict=True))


def node_by_node(model: StringModel, graph: Data, before: State) -> tuple[Tensor, State]:
    """Every node is a string of one token that goes on with the sum of the states at its predecessors."""
    sources, targets = graph.edge_index.tolist()
    weights = graph.edge_weight if "edge_weight" in graph else torch.ones(len(sources)).double()
    number = torch.repeat_interleave(graph.ptr.diff()).tolist()
    found: dict[int, tuple[Tensor, State]] = {}

    def of_graph(i: int) -> State:
        return zipped(lambda s: s[0][..., i : i + 1, :], [before])

    def at(v: int) -> tuple[Tensor, State]:
        if v not in found:
            into = [(s, w) for s, t, w in zip(sources, targets, weights, strict=True) if t == v]
            some = [zipped(lambda s, w=w: w * s[0], [at(s)[1]]) for s, w in into]
            state = zipped(lambda s: torch.stack(s).sum(0), some) if some else of_graph(number[v])
            found[v] = model(graph.x[v].view(1, 1, -1), state=state)
        return found[v]

    out = torch.cat([at(v)[0].view(1, -1) for v in range(len(graph.x))])
    after = []
    for i in range(len(graph.ptr) - 1):
        ends = [at(v)[1] for v in range(len(graph.x)) if number[v] == i and v not in sources]
        after.append(zipped(lambda s: torch.stack(s).sum(0), ends) if ends else of_graph(i))
    return out, zipped(lambda s: torch.cat(s, -2), after)


@ALL
def test_every_node_goes_on_with_its_predecessors(make: Callable[[], StringModel]) -> None:
    model, graph = drawn(make), graph_of()
    graph.x.requires_grad_()
    graph.edge_weight.requires_grad_()
    before = model(normal(3, 5, D))[1]  # as if other tokens had been there
    found = []
    for out, after in (model(graph, state=before), node_by_node(model, graph, before)):
        total = torch.stack([value.pow(2).sum() for value in (out, *parts(after))]).sum()
        grads = torch.autograd.grad(total, [graph.x, graph.edge_weight])
        found.append([out, *parts(after), *grads])
    for value, expected in zip(*found, strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-10)


@ALL
def test_graphs_do_not_meet_and_nodes_stand_anywhere(make: Callable[[], StringModel]) -> None:
    model, graph = drawn(make), graph_of()
    out, _ = model(graph)
    alone = Data(x=graph.x[5:], edge_index=torch.tensor([[1], [0]]), edge_weight=graph.edge_weight[5:])
    torch.testing.assert_close(model(alone)[0], out[5:])
    other, back = shuffled(graph)
    other.edge_index = EdgeIndex(other.edge_index)
    torch.testing.assert_close(model(other)[0][back], out)
    assert model.train()(graph)[0].isfinite().all()


@ALL
def test_weights_of_one_change_nothing_of_a_path(make: Callable[[], StringModel]) -> None:
    model = drawn(make)
    graph = path_graph([normal(n, D) for n in (3, 0, 4)])
    before = model(normal(3, 2, D))[1]
    expected, state = model(graph, state=before)
    graph.edge_weight = torch.ones(5)
    out, last = model(graph, state=before)
    for value, wanted in zip([out, *parts(last)], [expected, *parts(state)], strict=True):
        torch.testing.assert_close(value, wanted)
    graph.edge_weight = torch.ones(2)
    with pytest.raises(ValueError, match=r"edge_weight must be \[5\], one per edge, got \[2\]"):
        model(graph)


def test_both_directions_read_edges_both_ways() -> None:
    model = drawn(lambda: StringRNN(RKM(D, K, ngram=2), bidirectional=True))
    graph = graph_of()
    both = model.layers[0]
    assert isinstance(both, Bidirectional)
    before = model(normal(3, 2, D))[1]
    out, ((last, first),) = model(graph, state=before)
    turned = graph.clone()
    turned.edge_index = graph.edge_index.flip(0)
    found = []
    for cell, given, (i, state) in ((both.cell, graph, (0, last)), (both.reverse, turned, (1, first))):
        expected, after = node_by_node(cell, given, before[0][i])
        torch.testing.assert_close(parts(state), parts(after))
        found.append(expected)
    torch.testing.assert_close(out, torch.cat(found, 1))
    chain = path_graph([normal(n, D) for n in (3, 0, 4)])
    expected, _ = model(chain)
    chain.edge_weight = torch.ones(5)
    torch.testing.assert_close(model(chain)[0], expected)


def test_a_layer_on_a_graph_is_its_equation() -> None:
    model = drawn(lambda: StringKernelConv(D, K, 2, decay=0.6, normalize=False, act="tanh"))
    graph = graph_of()
    out, state = model(graph)
    first, second = (lin(graph.x) for lin in model.lins)
    c1, c2 = [torch.zeros(K)] * 7, [torch.zeros(K)] * 7
    edges = [*zip(*graph.edge_index.tolist(), graph.edge_weight, strict=True)]
    for v in (0, 1, 2, 3, 4, 6, 5):
        before1 = sum((w * c1[s] for s, t, w in edges if t == v), torch.zeros(K))
        before2 = sum((w * c2[s] for s, t, w in edges if t == v), torch.zeros(K))
        c1[v] = 0.6 * before1 + first[v]
        c2[v] = 0.6 * before2 + before1 * second[v]
    torch.testing.assert_close(out, torch.tanh(torch.stack(c2)))
    ends = [torch.stack([c[4], torch.zeros(K), c[5]]) for c in (c1, c2)]
    torch.testing.assert_close(state, torch.stack(ends))


def test_windows_are_sums_over_walks() -> None:
    """c̃ of a CNN: Σ_j W_j Aʲ x, with the edges' weights in A."""
    model, graph = drawn(lambda: RKM(D, K, "cnn", ngram=3, layer_norm=False)), graph_of()
    adjacency = torch.zeros(7, 7).double()
    adjacency[graph.edge_index[1], graph.edge_index[0]] = graph.edge_weight
    walks = [torch.linalg.matrix_power(adjacency, j) @ graph.x for j in range(3)]
    expected = torch.tanh(sum(lin(x) for lin, x in zip(model.lins, walks, strict=True)))
    torch.testing.assert_close(model(graph)[0], expected)


# The general machine


def test_a_machine_is_the_kernel_between_a_tree_and_the_string_of_a_filter() -> None:
    """h' is h̃ᵀh for h_v = φ([x_v, Σ_u w_uv h_u]) with the features φ of the polynomial kernel."""
    model = drawn(lambda: RecurrentKernelMachine(D, K, PolynomialKernel(2, 0.5), sigma_i2=0.3, sigma_f2=0.6))
    tree = Data(x=normal(3, D), edge_index=torch.tensor([[0, 1], [2, 2]]))
    tree.edge_weight = torch.tensor([0.3, 0.7]).double()

    def hidden(token: Tensor, h: Tensor) -> Tensor:
        z = torch.cat([torch.tensor([0.5**0.5]), 0.3**0.5 * token / token.norm(), 0.6**0.5 * h]) / 1.5**0.5
        return torch.outer(z, z).flatten()

    nothing = torch.zeros(0).double()
    below = 0.3 * hidden(tree.x[0], nothing) + 0.7 * hidden(tree.x[1], nothing)
    out, _ = model(tree)
    for i, filter_ in enumerate(model.lins[0].weight):
        of_filter = hidden(filter_, hidden(filter_, nothing))
        torch.testing.assert_close(out[2, i], of_filter @ hidden(tree.x[2], below))


@pytest.mark.parametrize("kernel", RECURRENT_KERNELS)
def test_kernels_of_unit_vectors_need_bounded_memories(kernel: str) -> None:
    model, graph = drawn(lambda: RecurrentKernelMachine(D, K, kernel)), graph_of(weighted=False)
    if kernel in ("linear", "tanh"):
        expected, _ = node_by_node(model, graph, torch.zeros(3, K).double())
        torch.testing.assert_close(model(graph)[0], expected)
        return
    with pytest.raises(
        ValueError, match=r"Kernel takes memories in \[-1, 1\], but the edges into node 3 weigh 3 in total"
    ):
        model(graph)
    degree = graph.edge_index[1].bincount(minlength=7)
    graph.edge_weight = 1 / degree[graph.edge_index[1]]  # the mean over predecessors
    assert model(graph)[0].abs().max() <= 1


def test_what_is_not_acyclic() -> None:
    model = drawn(lambda: TextNetwork(torch.nn.Embedding(9, D), StringKernelConv(D, K), 3))
    graph = graph_of()
    graph.x = torch.arange(7)
    assert model(graph).shape == (3, 3)
    with pytest.raises(
        ValueError, match="StringKernelConv reads acyclic graphs: nodes 0 → 3 → 0 are a cycle"
    ):
        model(Data(x=graph.x, edge_index=torch.tensor([[0, 3], [3, 0]])))
