from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from tests.inputs.molecules import classification_set, quick, regression_set
from tests.wlkernelnn.models.base.test_quotient import assert_same, odd_graphs, results
from wlkernelnn.datasets import PackedLoader
from wlkernelnn.models import ColourCache, KernelStackNetwork
from wlkernelnn.training import fit, predict

SHAPES: list[dict[str, Any]] = [
    {},
    {"jumping": "last", "walk_length": 3, "num_layers": 2},
    {"jumping": "sum", "decay": 0.5, "pooling": "mean"},
    {"compose": "add", "decay": "learned", "num_layers": 1, "norm": False},
    {"residual": False, "layer_norm": False, "jumping": "cat"},
]


def network(data: Any, **options: Any) -> KernelStackNetwork:
    torch.manual_seed(0)
    return KernelStackNetwork.from_data(data, **({"hidden_channels": 8, "num_layers": 3} | options))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("make", [odd_graphs, regression_set], ids=["odd graphs", "molecules"])
def test_colours_give_what_nodes_give(shape: dict[str, Any], make: Any) -> None:
    data = make()
    net = network(data, **shape).double()
    depth = net.quotient_depth
    assert depth is not None
    (given,) = PackedLoader(data, len(data), quotient=depth)
    (deeper,) = PackedLoader(data, len(data), quotient=depth + 2)
    (plain,) = PackedLoader(data, len(data))
    net.quotient = False
    expected = results(net, plain)
    net.quotient = True
    for batch in (given, deeper, plain):
        assert_same(results(net, batch), expected, 1e-12)
    assert expected[0].abs().max() > 0


def test_states_from_a_cache() -> None:
    data = regression_set()
    net = network(data).double().eval()
    with torch.no_grad():
        cache = ColourCache()
        for batch in PackedLoader(data, 7, quotient=net.quotient_depth):
            torch.testing.assert_close(net(batch, cache), net(batch))


def test_a_virtual_node_goes_by_nodes_and_sees_the_whole_graph() -> None:
    data = regression_set()
    net = network(data, virtual_node=True, num_layers=2, jumping="last").double()
    assert net.quotient_depth is None
    with pytest.raises(ValueError, match="quotient=True: not colours decide the states of this network"):
        KernelStackNetwork([2], virtual_node=True, quotient=True)
    (batch,) = PackedLoader(data[:1], 1)
    states = net.states(batch.x, batch)
    changed = batch.x.clone()
    changed[0, 0] += 1
    assert (net.states(changed, batch) != states).any(1).all()
    without = network(data, num_layers=2, jumping="last").double()
    assert (without.states(changed, batch) == without.states(batch.x, batch)).all(1).any()


def test_the_config_makes_the_same_network() -> None:
    net = network(classification_set(), virtual_node=True)
    again = KernelStackNetwork(**json.loads(json.dumps(net.config)))
    again.load_state_dict(net.state_dict())
    assert again.task == "classification"


def test_it_learns() -> None:
    data = regression_set()
    net = network(data, layer_dropout=0.1)
    before = (predict(net, data) - data.y.numpy()).std()
    fit(net, data, options=quick(epochs=20), progress=False)
    assert (predict(net, data) - data.y.numpy()).std() < 0.9 * before


@pytest.mark.parametrize("virtual_node", [False, True], ids=["plain", "virtual node"])
def test_compiles_without_graph_breaks(virtual_node: bool) -> None:
    data = regression_set()[:16]
    net = network(data, num_layers=2, virtual_node=virtual_node).eval()
    compiled = torch.compile(net, backend="eager", fullgraph=True, dynamic=True)
    for batch in PackedLoader(data, 8):
        torch.testing.assert_close(compiled(batch), net(batch))
