"""The network on colours instead of nodes: the same numbers, and when it does not go by colours."""

from __future__ import annotations

import logging
import pickle
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from tests.checks.pairwise import pairwise
from tests.inputs.graphs import random_packed
from tests.inputs.molecules import described, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs, PackedLoader, molecules_from
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.models.base import graph_network

SHAPES: list[dict[str, Any]] = [
    {},
    {"readout": "sum", "share_walk_weights": False},
    {"readout": "cat", "num_iterations": 2, "walk_length": 3},
    {"num_iterations": 1, "walk_length": 1},
    {"decay": 0.7, "pooling": "mean", "all_lengths": False},
    {"decay": "learned", "norm": False, "num_iterations": 1},
]


def odd_graphs() -> PackedGraphs:
    """Random graphs, directed, with empty and edgeless ones, and many equal neighbourhoods."""
    about = {"node_dims": (7, 7, 7), "num_edge_types": 2, "task": "regression"}
    return described(random_packed(60, max_nodes=5, num_edge_types=2), **about)


@cache
def with_additions() -> PackedGraphs:
    """Molecules whose atoms have numbers beside their codes, part of their first colour."""
    data = regression_set()
    options = {"target_columns": ["Act"], "features": "ogb+rw4+morgan", "cache": False}
    return molecules_from(data.smiles, data.y.numpy(), **options)


def network(data: PackedGraphs, **options: Any) -> GraphKernelNetwork:
    torch.manual_seed(0)
    return GraphKernelNetwork.from_data(data, **({"hidden_channels": 8, "num_iterations": 3} | options))


def results(net: GraphKernelNetwork, batch: Data) -> list[Tensor]:
    """Outputs and all gradients."""
    out = net(batch)
    cotangent = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    wanted = list(net.parameters())
    grads = torch.autograd.grad(out, wanted, cotangent, allow_unused=True)
    return [
        out.detach(),
        *(torch.zeros_like(p) if g is None else g for p, g in zip(wanted, grads, strict=True)),
    ]


def assert_same(came: list[Tensor], expected: list[Tensor], atol: float) -> None:
    for ours, theirs in zip(came, expected, strict=True):
        scale = float(theirs.abs().max().clamp(min=1e-30))
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=atol)


@pairwise(
    shape=SHAPES,
    make=[odd_graphs, regression_set, with_additions],
    precision=[(torch.float64, 1e-12), (torch.float32, 1e-5)],
)
def test_the_same_outputs_and_gradients(
    shape: dict[str, Any], make: Any, precision: tuple[torch.dtype, float]
) -> None:
    """With the quotient of the loader, with one made on the way, and by nodes."""
    data, (dtype, atol) = make(), precision
    net = network(data, **shape).to(dtype)
    (given,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    (plain,) = PackedLoader(data, len(data))
    net.quotient = False
    expected = results(net, plain)
    net.quotient = True
    assert_same(results(net, given), expected, atol)
    assert_same(results(net, plain), expected, atol)
    assert expected[0].abs().max() > 0


def test_dropout_is_the_same() -> None:
    """It acts on graphs, not on nodes: the same draws with and without colours."""
    data = regression_set()
    net = network(data, dropout=0.5).train()
    (batch,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    outs = []
    for quotient in (True, False):
        net.quotient = quotient
        torch.manual_seed(3)
        outs.append(net(batch))
    torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)


def test_graphs_and_batches_of_pyg() -> None:
    data = regression_set()
    net = network(data).double()
    graphs = list(data[:5])
    (batch,) = PackedLoader(data[:5], 5)
    expected = net(batch)
    torch.testing.assert_close(net(Batch.from_data_list(graphs)), expected)
    torch.testing.assert_close(torch.cat([net(graph) for graph in graphs]), expected)


def calls(net: GraphKernelNetwork, batch: Data) -> int:
    """Rows that the layer sees."""
    seen = []
    handle = net.conv.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].size(0)))
    net(batch)
    handle.remove()
    return seen[0]


def test_each_colour_once() -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data))
    first_colours = len(batch.x.unique(dim=0))
    assert calls(network(data), batch) == first_colours < batch.x.size(0) / 5
    assert calls(network(data, quotient=True), batch) == first_colours
    assert calls(network(data, quotient=False), batch) == batch.x.size(0)


def test_a_quotient_that_is_not_deep_enough_is_made_again() -> None:
    data = regression_set()
    net = network(data)
    (shallow,) = PackedLoader(data, len(data), quotient=1)
    (plain,) = PackedLoader(data, len(data))
    torch.testing.assert_close(net(shallow), net(plain))


def test_a_quotient_of_the_loader_is_not_proved_again(monkeypatch: pytest.MonkeyPatch) -> None:
    data = regression_set()
    net = network(data)
    (batch,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    proofs = []
    whole = graph_network.is_of
    monkeypatch.setattr(graph_network, "is_of", lambda *given: proofs.append(given) or whole(*given))
    out = net(batch)
    assert not proofs
    torch.testing.assert_close(net(pickle.loads(pickle.dumps(batch))), out)
    assert proofs


def test_it_says_why_it_goes_by_nodes(caplog: pytest.LogCaptureFixture) -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data))
    net = network(data)
    expected = net(batch)
    with caplog.at_level(logging.DEBUG, logger="wlkernelnn"):
        net(batch)
        assert not caplog.messages
        handle = net.conv.walks[0].register_message_forward_hook(lambda module, inputs, out: out)
        torch.testing.assert_close(net(batch), expected, rtol=1e-4, atol=1e-5)
        assert "every node, not every colour once: somebody watches" in caplog.messages[-1]
        handle.remove()


def test_switch() -> None:
    data = regression_set()
    assert network(data).quotient_depth == 3
    assert network(data, num_iterations=4, walk_length=3).quotient_depth == 5
    assert network(data, quotient=False).quotient_depth is None
    assert network(data, quotient=True).config["quotient"] is True
    with pytest.raises(ValueError, match="quotient must be \"auto\", True or False, got 'yes'"):
        network(data, quotient="yes")


def test_old_checkpoints_have_no_such_argument() -> None:
    net = small_network(regression_set())
    config = {name: value for name, value in net.config.items() if name != "quotient"}
    assert GraphKernelNetwork(**config).quotient == "auto"


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_parts_of_a_batch(pooling: str) -> None:
    """PyG's subgraph drops nodes and leaves ptr as it was."""
    data = regression_set()
    batch = Batch.from_data_list([data[i] for i in range(5)])
    mask = torch.ones(batch.num_nodes, dtype=torch.bool)
    mask[-2:] = False
    mask[3] = False
    part = batch.subgraph(mask)
    net = GraphKernelNetwork.from_data(data, hidden_channels=8, pooling=pooling).eval()
    expected = net(part.clone().update({"ptr": torch.tensor([0, *part.batch.bincount().cumsum(0)])}))
    torch.testing.assert_close(net(part), expected)
    net.quotient = False
    torch.testing.assert_close(net(part), expected)


@pairwise(name=["x", "edge_type", "edge_index"], in_place=[True, False], sent=[True, False])
def test_what_was_changed_in_a_batch_is_seen(name: str, in_place: bool, sent: bool) -> None:
    """As studies of features and edges do; also after a batch came from another process."""
    data = regression_set()
    net, by_nodes = network(data), network(data, quotient=False)
    (batch,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    if sent:
        batch = pickle.loads(pickle.dumps(batch))
    assert calls(net, batch) < batch.x.size(0)
    before = net(batch)
    value = batch[name].as_tensor() if name == "edge_index" else batch[name]
    if not in_place:
        value = value.clone()
    if name == "edge_index":
        value[0, :2] = value[0, 2:4].clone()
        batch.edge_index = value
    else:
        value[::3] = value.roll(1, 0)[::3]
        batch[name] = value
    torch.testing.assert_close(net(batch), by_nodes(batch), rtol=1e-4, atol=1e-5)
    assert (net(batch) - before).abs().max() > 1e-3


def assert_by_nodes(data: PackedGraphs, batch: Data) -> Tensor:
    """The network gives what its nodes give; returned."""
    out = network(data)(batch)
    torch.testing.assert_close(out, network(data, quotient=False)(batch), rtol=1e-4, atol=1e-5)
    return out


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad], ids=["inference", "no grad"])
def test_what_was_changed_where_writes_are_not_counted(mode: type[torch.no_grad]) -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data), quotient=network(data).quotient_depth)
    batch.edge_index = batch.edge_index.as_tensor()
    with mode():
        batch.x = batch.x.clone()
        before = assert_by_nodes(data, batch)
        batch.x[::3] = batch.x.roll(1, 0)[::3]
        assert (assert_by_nodes(data, batch) - before).abs().max() > 1e-3


def test_batches_of_batches() -> None:
    data = regression_set()
    first, second = PackedLoader(data[:20], 10, quotient=network(data).quotient_depth)
    assert len(assert_by_nodes(data, Batch.from_data_list([first, second]))) == 2


def test_fewer_edges_in_the_same_memory() -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data), quotient=network(data).quotient_depth)
    before = assert_by_nodes(data, batch)
    half = batch.num_edges // 2
    batch.edge_index, batch.edge_type = batch.edge_index.as_tensor()[:, :half], batch.edge_type[:half]
    assert (assert_by_nodes(data, batch) - before).abs().max() > 1e-3


@pytest.mark.parametrize("names", [("batch",), ("ptr",), ("batch", "ptr")], ids="+".join)
def test_nodes_that_went_to_another_graph(names: tuple[str, ...]) -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data), quotient=network(data).quotient_depth)
    before = assert_by_nodes(data, batch)
    ptr = batch.ptr.clone()
    ptr[1] -= 2
    changed = {"ptr": ptr, "batch": torch.arange(len(data)).repeat_interleave(ptr.diff())}
    for name in ("batch", "ptr"):
        del batch[name]
    batch.update({name: changed[name] for name in names})
    after = assert_by_nodes(data, batch)
    assert (after - before)[:2].abs().min() > 1e-3
    torch.testing.assert_close(after[2:], before[2:], rtol=1e-4, atol=1e-5)


def test_batch_counts_where_ptr_says_otherwise() -> None:
    """Nobody else writes ``ptr`` anew when ``batch`` is changed."""
    data = regression_set()
    (batch,) = PackedLoader(data, len(data), quotient=network(data).quotient_depth)
    batch.batch = torch.tensor([0] * (batch.ptr[1] - 2) + [1] * 2 + batch.batch[batch.ptr[1] :].tolist())
    alone = batch.clone()
    del alone["ptr"]
    torch.testing.assert_close(assert_by_nodes(data, batch), network(data)(alone), rtol=1e-4, atol=1e-5)
    del batch["batch"]
    for end, other in ((-1, batch.ptr[-1] + 1), (0, 1)):
        batch.ptr[end] = other
        with pytest.raises(ValueError, match="expected ptr to ascend from 0 to the number of nodes"):
            network(data)(batch)


@pytest.mark.parametrize("change", ["edges", "nodes"])
def test_a_batch_that_was_changed_has_another_quotient(change: str) -> None:
    """Whatever drops edges or nodes copies the quotient of the loader along."""
    data = regression_set()
    net = network(data)
    (batch,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    assert calls(net, batch) < batch.x.size(0)
    generator = torch.Generator().manual_seed(0)
    if change == "edges":
        kept = torch.rand(batch.num_edges, generator=generator) > 0.3
        changed = batch.clone().update(
            {"edge_index": batch.edge_index.as_tensor()[:, kept], "edge_type": batch.edge_type[kept]}
        )
    else:
        changed = Batch.from_data_list(list(data)).subgraph(
            torch.rand(batch.num_nodes, generator=generator) > 0.3
        )
        changed.quotient = batch.quotient
    assert (assert_by_nodes(data, changed) - net(batch)).abs().max() > 1e-3


@pytest.mark.parametrize("quotient", ["auto", False], ids=str)
@pytest.mark.parametrize("change", ["short", "long", "negative"])
def test_graphs_of_other_nodes(change: str, quotient: bool | str) -> None:
    data = regression_set()
    (batch,) = PackedLoader(data, len(data), quotient=network(data).quotient_depth)
    owners = {
        "short": batch.batch[:-3],
        "long": torch.cat([batch.batch, batch.batch[-1:]]),
        "negative": batch.batch - 1,
    }
    batch.batch = owners[change]
    with pytest.raises(ValueError, match=r"expected batch\.batch to be the graph of each of \d+ nodes"):
        network(data, quotient=quotient)(batch)
