"""Sequence models on graphs of PyG: the order is that of the edges."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import Compose

from tests.inputs.strings import LENGTHS, drawn, normal, ptr_of, shuffled
from wlkernelnn.ops.string import Steps
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    Bidirectional,
    LanguageModel,
    RecurrentKernelMachine,
    StringKernelConv,
    StringKernelNetwork,
    StringModel,
    StringNetwork,
    TextNetwork,
    ToPathGraph,
    path_graph,
)
from wlkernelnn.sequence.graphs.reading import with_tokens
from wlkernelnn.sequence.layers.string_model import State
from wlkernelnn.testing.string_laws import parts

D, K = 3, 4
ENCODERS: dict[str, Callable[[], StringModel]] = {
    "string_kernel": lambda: StringKernelConv(D, K),
    "feedback": lambda: StringKernelConv(D, K, feedback=True),
    "network": lambda: StringKernelNetwork(D, K, 2),
    "rkm": lambda: RKM(D, K, ngram=2),
    "machine": lambda: RecurrentKernelMachine(D, K),
    "rrnn": lambda: RRNN(D, K, 2, 2),
    "rrnn-gru": lambda: RRNNGRU(D, K, 2),
}
ALL_ENCODERS = pytest.mark.parametrize("make", ENCODERS.values(), ids=ENCODERS)


@ALL_ENCODERS
@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], LENGTHS["equal"], [0, 0]], ids=str)
def test_graphs_are_the_strings(make: Callable[[], StringModel], lengths: list[int]) -> None:
    model = drawn(make)
    graph = path_graph([normal(n, D) for n in lengths])
    other, back = shuffled(graph)
    state = model(graph.x, graph.ptr)[1]
    for before in (None, state):
        expected, after = model(graph.x, graph.ptr, before)
        for same, rows in ((graph, slice(None)), (other, back)):
            out, last = model(same, state=before)
            torch.testing.assert_close(out[rows], expected)
            for part, wanted in zip(parts(last), parts(after), strict=True):
                torch.testing.assert_close(part, wanted)


@ALL_ENCODERS
def test_gradients_find_their_nodes(make: Callable[[], StringModel]) -> None:
    model = drawn(make)
    graph = path_graph([normal(n, D) for n in LENGTHS["ragged"]])
    other, back = shuffled(graph)
    weight = normal(graph.num_nodes, K)
    found = []
    for given, rows in ((graph, slice(None)), (other, back)):
        given.x.requires_grad_()
        (model(given)[0][rows] * weight).sum().backward()
        found.append(given.x.grad[rows])
    torch.testing.assert_close(*found)


@ALL_ENCODERS
@pytest.mark.parametrize("branches", [False, True])
def test_gradients_by_torch_func(make: Callable[[], StringModel], branches: bool) -> None:
    model = drawn(make)
    graph = path_graph([normal(n, D) for n in (3, 2)])
    if branches:
        graph.edge_index = torch.tensor([[0, 1, 3], [2, 2, 4]])
        graph.edge_weight = normal(3)

    def loss(x: Tensor) -> Tensor:
        return model(with_tokens(graph, x))[0].square().sum()

    x = graph.x.clone().requires_grad_()
    torch.testing.assert_close(torch.func.grad(loss)(graph.x), torch.autograd.grad(loss(x), x)[0])


def test_a_graph_without_nodes_is_an_empty_string() -> None:
    model = drawn(lambda: RRNN(D, K, 2, 2))
    _, state = model(normal(2, D), [0, 2])
    out, after = model(Data(x=normal(0, D), edge_index=torch.zeros(2, 0, dtype=torch.long)), state=state)
    assert out.shape == (0, K)
    assert torch.equal(after, state)


def test_components_without_ptr_are_strings() -> None:
    model = drawn(lambda: RRNN(D, K, 2, 2))
    graph = path_graph([normal(n, D) for n in (2, 1, 3)])
    order = torch.tensor([3, 0, 5, 1, 2, 4])  # strings lie between each other
    back = torch.argsort(order)
    mixed = Data(x=graph.x[order], edge_index=back[graph.edge_index])
    expected, _ = model(graph.x, graph.ptr)
    out, state = model(mixed)
    torch.testing.assert_close(out[back], expected)
    assert state.shape == (1, 3, K)
    by_batch = Data(x=graph.x, edge_index=graph.edge_index, batch=graph.batch)
    torch.testing.assert_close(model(by_batch)[0], expected)


@pytest.mark.parametrize("branch", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_components_are_in_the_order_of_their_first_nodes(branch: bool, weighted: bool) -> None:
    """Of paths 3 → 0 and 1 → 2 the first is the first, also where weights or a branch beside make levels."""
    edges = torch.tensor([[3, 1, 4, 5], [0, 2, 6, 6]] if branch else [[3, 1], [0, 2]])
    graph = Data(x=normal(7 if branch else 4, D), edge_index=edges)
    if weighted:
        graph.edge_weight = torch.ones(edges.size(1))
    model = drawn(lambda: Bidirectional(RRNN(D, K, 2, 2), RRNN(D, K, 2, 2)))
    rows = torch.tensor([3, 0, 1, 2])
    before = model(normal(4, D), [0, 2, 4])[1]
    expected, after = model(graph.x[rows], [0, 2, 4], before)
    given = tuple(torch.cat([part, normal(1, int(branch), K)], 1) for part in parts(before))
    out, state = model(graph, state=given)
    torch.testing.assert_close(out[rows], expected)
    for part, wanted in zip(parts(state), parts(after), strict=True):
        torch.testing.assert_close(part[:, :2], wanted)


def test_models_with_something_for_each_string_need_ptr_for_several() -> None:
    graph = path_graph([normal(2, D), normal(3, D)])
    alone = Data(x=graph.x, edge_index=graph.edge_index)
    network = drawn(lambda: StringNetwork(StringKernelConv(D, K), 3))
    with pytest.raises(ValueError, match="StringNetwork: a graph of 2 components needs ptr or batch"):
        network(alone)
    locked = LanguageModel(9, StringKernelConv(D, D), 0.5, locked=True)
    alone.x = torch.arange(5)
    with pytest.raises(ValueError, match="LanguageModel: a graph of 2 components needs ptr or batch"):
        locked(alone)
    alone.ptr = graph.ptr
    assert locked(alone)[0].shape == (5, 9)
    one = path_graph([normal(4, D)])
    assert network(Data(x=one.x, edge_index=one.edge_index)).shape == (1, 3)


MODELS: dict[str, Callable[[], torch.nn.Module]] = {
    "string_classifier": lambda: StringNetwork(RKM(D, K), 3),
    "text_classifier": lambda: TextNetwork(torch.nn.Embedding(9, D), StringKernelConv(D, K), 3),
    "text_classifier-rrnn": lambda: TextNetwork(torch.nn.Embedding(9, D), RRNN(D, K, 1, 2), 3),
    "language_model": lambda: LanguageModel(9, StringKernelConv(K, K)),
}


@pytest.mark.parametrize("name", MODELS)
def test_classifiers_and_language_models(name: str) -> None:
    model = drawn(MODELS[name])
    lengths = LENGTHS["ragged"]
    of_ids = name != "string_classifier"
    graph = path_graph([torch.randint(9, (n,)) if of_ids else normal(n, D) for n in lengths])
    other, back = shuffled(graph)
    expected = model(graph.x, graph.ptr)
    for same, rows in ((graph, slice(None)), (other, back)):
        found = model(same)
        if name == "language_model":
            torch.testing.assert_close(found[0][rows], expected[0])
            torch.testing.assert_close(
                model(same, state=found[1])[1], model(graph.x, graph.ptr, expected[1])[1]
            )
        else:
            torch.testing.assert_close(found, expected)
    with pytest.raises(ValueError, match="either a graph, which knows its ptr, or x and ptr, got both"):
        model(graph, graph.ptr)


def test_locked_dropout_on_graphs() -> None:
    model = LanguageModel(9, StringKernelConv(K, K), dropout=0.5, locked=True).double()
    graph = path_graph([torch.randint(9, (n,)) for n in (3, 0, 2)])
    torch.manual_seed(0)
    expected, _ = model(graph.x, graph.ptr)
    torch.manual_seed(0)
    torch.testing.assert_close(model(graph)[0], expected)


def test_pipelines_of_pyg() -> None:
    """Items, transforms and the loader of PyG, down to a step of training."""
    model = StringNetwork(StringKernelNetwork(D, K, 2), 2)
    items = [Data(x=torch.randn(n, D), y=torch.tensor([n % 2])) for n in (3, 1, 4, 2, 0)]
    transform = Compose([ToPathGraph()])
    items = [transform(item) for item in items]
    optimizer = torch.optim.Adam(model.parameters())
    for batch in DataLoader(items, batch_size=2):
        logits = model(batch)
        assert logits.shape == (batch.num_graphs, 2)
        torch.nn.functional.cross_entropy(logits, batch.y).backward()
        optimizer.step()
    model.eval()
    alone = torch.cat([model(item) for item in items])
    torch.testing.assert_close(model(Batch.from_data_list(items)), alone)


class OfPaths(StringModel):
    """A model that does not know what to do at branches."""

    in_channels = out_channels = D

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        return x, x[: steps.num_strings]


X = torch.zeros(6, D, dtype=torch.float64)
PTR = ptr_of([3, 0, 3])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [1, 0]], r"nodes 0 → 1 → 0 of graph 0 are a cycle"),
        ([[0, 1, 4], [1, 2, 4]], "nodes 4 → 4 of graph 2 are a cycle"),
        ([[3, 3], [4, 5]], "node 3 of graph 2 has 2 edges out of it"),
        ([[3, 4], [5, 5]], "node 5 of graph 2 has 2 edges into it"),
        ([[0, 0], [1, 1]], "node 1 of graph 0 has 2 edges into it"),
        ([[0, 1, 4], [1, 2, 5]], "graph 2 has paths from nodes 3 and 4"),
        ([[2], [3]], "the edge 2 → 3 joins graphs 0 and 2"),
        ([[0], [6]], r"edge_index has node 6, expected 0 … 5"),
        ([[-1], [0]], r"edge_index has node -1, expected 0 … 5"),
        ([[0, 1]], r"edge_index must be integers \[2, E\], got torch.int64 \[1, 2\]"),
        ([[0.0], [1.0]], r"edge_index must be integers \[2, E\], got torch.float32 \[2, 1\]"),
    ],
)
def test_what_is_not_a_path(edges: list[list[int]], message: str) -> None:
    with pytest.raises(ValueError, match=f"^OfPaths.*{message}"):
        OfPaths()(Data(x=X, edge_index=torch.tensor(edges), ptr=PTR))


def test_what_is_not_a_graph_of_strings() -> None:
    model = OfPaths()
    edges = torch.tensor([[0, 1], [1, 2]])
    for graph, message in (
        (Data(x=X, ptr=PTR), "needs a graph with x and edge_index, got .*: see path_graph"),
        (Data(edge_index=edges), "needs a graph with x and edge_index, got edge_index"),
        (Data(x=X, edge_index=edges, ptr=PTR[:-1]), "OfPaths: ptr ends at 3, x has 6 tokens"),
        (Data(x=X, edge_index=edges, batch=torch.tensor([0, 0, 0, 1, 0, 1])), "batch must never fall"),
        (Data(x=X, edge_index=edges, edge_weight=torch.ones(2)), "OfPaths knows no edge_weight"),
        (Data(x=X[:3, :2], edge_index=edges), r"OfPaths reads tokens of 3 values, got x of shape \[3, 2\]"),
    ):
        with pytest.raises(ValueError, match=message):
            model(graph)
