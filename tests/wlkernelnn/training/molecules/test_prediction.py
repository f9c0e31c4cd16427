from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.inputs.graphs import random_packed
from tests.inputs.molecules import classification_set, described, regression_set, small_network
from wlkernelnn.bench.baselines.molecules import RandomWalkNetwork
from wlkernelnn.conv import graph as graph_of_convs
from wlkernelnn.datasets import PackedGraphs, PackedLoader, molecules_from
from wlkernelnn.models import GraphKernelNetwork, GraphNetwork, KernelStackNetwork
from wlkernelnn.training import embed, predict
from wlkernelnn.training.molecules import prediction
from wlkernelnn.utils.checks import NotFiniteError


@pytest.mark.parametrize("make", [regression_set, classification_set])
def test_predicts_in_order(make: type) -> None:
    data = make()
    net = small_network(data).eval()
    (batch,) = PackedLoader(data, 1000)
    expected = net.predict(batch).detach().numpy()
    came = predict(net, data, batch_size=7)
    assert came.dtype == np.float32
    np.testing.assert_allclose(came, expected, rtol=1e-5, atol=1e-5)
    backwards = np.arange(len(data))[::-1]
    np.testing.assert_allclose(predict(net, data[backwards]), expected[::-1], rtol=1e-5, atol=1e-5)


def test_is_in_evaluation_mode_and_restores_the_mode() -> None:
    data = regression_set()
    net = small_network(data, dropout=0.5).train()
    np.testing.assert_array_equal(predict(net, data), predict(net, data))
    assert net.training
    net.encoder.eval()  # frozen
    predict(net, data)
    assert net.training
    assert not net.encoder.training
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1"):
        predict(net, data, batch_size=0)
    assert net.training


def test_keeps_no_gradients() -> None:
    data = regression_set()
    net = small_network(data)
    predict(net, data)
    assert torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in net.parameters())


def test_no_graphs() -> None:
    data = classification_set()
    assert predict(small_network(data), data[:0]).shape == (0, 2)
    assert embed(small_network(data), data[:0]).shape == (0, 8)


@pytest.mark.parametrize("features", ["ogb", "ogb+morgan"])
def test_embeds_what_the_head_sees(features: str) -> None:
    some = regression_set(20)
    data = molecules_from(some.smiles, some.y.numpy(), features=features, cache=False)
    net = small_network(data, dropout=0.5)
    vectors = embed(net, data, batch_size=7)
    assert vectors.shape == (20, net.embedding_channels) == (20, 8 if features == "ogb" else 16)
    with torch.no_grad():
        values = net.eval().head(torch.from_numpy(vectors)) * net.target_std + net.target_mean
    np.testing.assert_allclose(values.numpy(), predict(net, data), rtol=1e-4, atol=1e-5)


def odd_graphs() -> PackedGraphs:
    """Random graphs, directed, with empty ones first and in between."""
    graphs = random_packed(30, max_nodes=5, num_edge_types=2)
    order = np.argsort(graphs.num_nodes_per_graph > 0, kind="stable")
    data = described(graphs, node_dims=(7, 7, 7), num_edge_types=2, task="regression")
    return data[np.concatenate([order, order[::-3]])]


def labelled() -> PackedGraphs:
    """Some of the molecules."""
    return classification_set()[:24].compact()


@cache
def with_additions() -> PackedGraphs:
    """Molecules with walk encodings of atoms and counts of the whole."""
    data = regression_set()[:24]
    return molecules_from(data.smiles, data.y.numpy(), features="ogb+rw4+morgan", cache=False)


NETWORKS: dict[str, tuple[type[GraphNetwork], dict[str, Any]]] = {
    "wl": (GraphKernelNetwork, {}),
    "wl-sum": (GraphKernelNetwork, {"readout": "sum", "share_walk_weights": False, "pooling": "mean"}),
    "wl-cat": (GraphKernelNetwork, {"readout": "cat", "num_iterations": 2, "walk_length": 3, "decay": 0.7}),
    "wl-flat": (GraphKernelNetwork, {"num_iterations": 1, "walk_length": 1, "norm": False}),
    "stack": (KernelStackNetwork, {"num_layers": 3, "dropout": 0.5, "layer_dropout": 0.5}),
    "stack-sum": (KernelStackNetwork, {"num_layers": 2, "walk_length": 3, "jumping": "sum"}),
    "walks": (RandomWalkNetwork, {}),
}


def network_and_its_twin_by_nodes(name: str, data: PackedGraphs) -> tuple[GraphNetwork, GraphNetwork]:
    torch.manual_seed(0)
    kind, options = NETWORKS[name]
    net = kind.from_data(data, hidden_channels=8, **options).double()
    twin = kind(**net.config | {"quotient": False}).double()
    twin.load_state_dict(net.state_dict())
    return net, twin


@pytest.mark.halved
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "make", [odd_graphs, pytest.param(labelled, id="classification_set"), with_additions]
)
def test_by_colours_as_by_nodes(
    make: Callable[[], PackedGraphs], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make()
    net, twin = network_and_its_twin_by_nodes(name, data)
    for function in (predict, embed):
        np.testing.assert_allclose(function(net, data), function(twin, data), rtol=1e-10, atol=1e-10)
    monkeypatch.setattr(graph_of_convs, "ROWS", 7)
    monkeypatch.setattr(prediction, "VALUES", 1000)
    np.testing.assert_allclose(predict(net, data), predict(twin, data), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["wl", "stack"])
def test_each_colour_of_the_store_is_computed_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = regression_set()
    net, _ = network_and_its_twin_by_nodes(name, data)
    computed: list[int] = []
    states = net.states

    def counted(*given: Any) -> torch.Tensor:
        computed.append(len(out := states(*given)))
        return out

    monkeypatch.setattr(net, "states", counted)
    predict(net, data, batch_size=7)
    (colours,) = computed
    assert colours == len(np.unique(data.colours(net.quotient_depth)[-1]))
    predict(net, data[[3, 3]], batch_size=7)
    assert computed[1] < colours / 10


def test_only_empty_graphs() -> None:
    data = odd_graphs()[[0, 0, 0]]
    assert not data.num_nodes_per_graph.any()
    net, twin = network_and_its_twin_by_nodes("wl", data)
    np.testing.assert_allclose(predict(net, data), predict(twin, data))


def test_refuses_graphs_without_the_features_of_the_network() -> None:
    net, _ = network_and_its_twin_by_nodes("wl", with_additions())
    with pytest.raises(ValueError, match="expected graph_x"):
        predict(net, regression_set())


def test_goes_by_nodes_where_messages_are_watched() -> None:
    data = regression_set()
    net, _ = network_and_its_twin_by_nodes("wl", data)
    expected, seen = predict(net, data), []
    hook = net.conv.walks[0].register_message_forward_hook(lambda layer, given, out: seen.append(len(out)))
    np.testing.assert_allclose(predict(net, data), expected, rtol=1e-10)
    hook.remove()
    assert seen == [data.arrays.source.numel()]


@pytest.mark.parametrize("compute", [predict, embed])
def test_values_that_are_not_finite(compute: Callable[..., np.ndarray]) -> None:
    data = regression_set()
    net = small_network(data)
    with torch.no_grad():
        net.encoder.table.weight.fill_(3e38)  # a number, and the sum of two is none
    with pytest.raises(NotFiniteError, match="values that are not finite numbers for 60 of 60 graphs, first"):
        compute(net, data)
