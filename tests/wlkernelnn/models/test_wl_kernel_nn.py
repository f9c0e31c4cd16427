"""The model in the manner of PyG's, and its place in GraphGym."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GIN, BatchNorm, global_add_pool, to_hetero

from wlkernelnn import WLKernelConv
from wlkernelnn.models import WLKernelNN

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
X = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))  # the last node is alone


def test_it_is_layers_with_activations_between() -> None:
    net = WLKernelNN(16, 8, 3, 1)
    h = X
    for conv in net.convs:
        assert isinstance(conv, WLKernelConv)
        h = conv(h if h is X else h.relu(), EDGES)
    out = net(X, EDGES)
    torch.testing.assert_close(out, h)
    assert out.shape == (4, 1)
    assert out[3] != 0  # walks of one node count
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(net(X[order], order.argsort()[EDGES]), out[order])
    assert repr(net) == "WLKernelNN(16, 1, num_layers=3)"


@pytest.mark.parametrize("jk", [None, "last", "cat", "max", "lstm"])
@pytest.mark.parametrize("out_channels", [None, 5])
def test_options_are_those_of_pyg(jk: str | None, out_channels: int | None) -> None:
    options: Any = {"jk": jk, "norm": "batch_norm", "dropout": 0.5, "act": "elu", "act_first": True}
    net, theirs = (model(16, 8, 2, out_channels, **options) for model in (WLKernelNN, GIN))
    assert [type(norm) for norm in net.norms] == [type(norm) for norm in theirs.norms]
    assert isinstance(net.norms[0], BatchNorm)
    assert (net.out_channels, hasattr(net, "lin")) == (theirs.out_channels, hasattr(theirs, "lin"))
    out = net(X, EDGES)
    assert out.shape == theirs(X, EDGES).shape
    out.sum().backward()
    assert all(weight.grad is not None for weight in net.parameters())
    assert torch.equal(net.eval()(X, EDGES), net(X, EDGES))


def test_edges_have_weights_and_features() -> None:
    net = WLKernelNN(16, 8, 2, edge_dim=3, decay=0.5)
    edge_attr = torch.rand(4, 3)
    out = net(X, EDGES, edge_attr=edge_attr)
    assert not torch.allclose(out, net(X, EDGES, edge_attr=edge_attr + 1))
    assert not torch.allclose(out, net(X, EDGES, torch.tensor([1.0, 2, 3, 4]), edge_attr))
    with pytest.raises(ValueError, match="edge_attr"):
        net(X, EDGES)
    with pytest.raises(ValueError, match="edge_attr"):
        net(X, EDGES, edge_attr=edge_attr[:, :2])
    with pytest.raises(TypeError, match="num_edge_types: edges of this model have edge_attr"):
        WLKernelNN(16, 8, 2, num_edge_types=4)


def test_it_becomes_heterogeneous() -> None:
    metadata = (["a", "b"], [("a", "to", "b"), ("b", "back", "a")])
    x, edges = {"a": X, "b": X[:, :5]}, dict.fromkeys(metadata[1], EDGES)
    net = to_hetero(WLKernelNN(-1, 8, 2, out_channels=3, all_lengths=False), metadata)
    assert {name: out.shape for name, out in net(x, edges).items()} == {"a": (4, 3), "b": (4, 3)}
    with pytest.raises(ValueError, match="give all_lengths=False"):
        to_hetero(WLKernelNN(-1, 8, 2, out_channels=3), metadata)(x, edges)


@pytest.mark.filterwarnings("ignore")  # GraphGym's own
@pytest.mark.parametrize("of_config", [{"model.type": "wlkernelnn"}, {"gnn.layer_type": "wlkernelconv"}])
@pytest.mark.parametrize("act", ["relu", "lrelu_01"])  # PyG's, and GraphGym's own
@pytest.mark.parametrize("layers_pre_mp", [0, 2])
def test_graphgym_makes_it_from_a_configuration(
    of_config: dict[str, str], act: str, layers_pre_mp: int
) -> None:
    pytest.importorskip("yacs")
    from torch_geometric.graphgym.config import cfg, set_cfg
    from torch_geometric.graphgym.model_builder import create_model

    import wlkernelnn.models.graphgym  # noqa: F401 (registers)

    set_cfg(cfg)
    sizes = {"share.dim_in": 16, "share.dim_out": 3, "gnn.dim_inner": 8, "gnn.layers_mp": 3}
    words = {"dataset.task": "graph", "gnn.head": "graph", "gnn.act": act} | of_config
    for name, value in {**sizes, **words, "gnn.layers_pre_mp": layers_pre_mp}.items():
        cfg.merge_from_list([name, value])
    net = create_model(to_device=False)
    before = [name for name, _ in net.named_parameters() if name.startswith("model.pre_mp.")]
    assert bool(before) == bool(layers_pre_mp)
    leaky = [module for module in net.modules() if isinstance(module, torch.nn.LeakyReLU)]
    assert bool(leaky) == (act == "lrelu_01")
    assert sum(isinstance(module, WLKernelConv) for module in net.modules()) == 3
    batch = Batch.from_data_list([Data(x=X, edge_index=EDGES, y=torch.tensor([1]))] * 3)
    out, y = net(batch)
    assert (out.shape, y.tolist()) == ((3, 3), [1, 1, 1])
    out.sum().backward()


@pytest.mark.filterwarnings("ignore")  # GraphGym's own
def test_graphgym_needs_yacs(monkeypatch: pytest.MonkeyPatch) -> None:
    config = importlib.import_module("torch_geometric.graphgym.config")
    monkeypatch.setattr(config, "cfg", None)
    monkeypatch.delitem(sys.modules, "wlkernelnn.models.graphgym", raising=False)
    with pytest.raises(ImportError, match=r"GraphGym needs yacs: pip install 'wlkernelnn\[graphgym\]'"):
        importlib.import_module("wlkernelnn.models.graphgym")


def test_it_learns_in_a_loop_of_pyg() -> None:
    torch.manual_seed(0)
    ring = torch.tensor([[1, 2, 0, 0, 1, 2], [0, 1, 2, 1, 2, 0]])
    batch = Batch.from_data_list(
        [
            Data(x=torch.ones(4, 1), edge_index=EDGES, y=torch.zeros(1)),
            Data(x=torch.ones(4, 1), edge_index=ring, y=torch.ones(1)),
        ]
    )
    net = WLKernelNN(1, 8, 2, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(60):
        out = global_add_pool(net(batch.x, batch.edge_index), batch.batch).view(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(out, batch.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.1


def test_layer_by_layer_inference_is_of_one_hop() -> None:
    """PyG's ``inference`` loads the neighbours of some nodes, layer by layer."""

    def inferred(net: WLKernelNN) -> torch.Tensor:
        h = X
        for layer in range(2):
            rows = []
            for seed in range(len(X)):
                ids = torch.cat([torch.tensor([seed]), EDGES[0, EDGES[1] == seed]])
                own = torch.stack([torch.arange(1, len(ids)), torch.zeros(len(ids) - 1, dtype=torch.long)])
                rows.append(net.inference_per_layer(layer, h[ids], own, 1))
            h = torch.cat(rows)
        return h

    net = WLKernelNN(16, 8, 2, 4).eval()
    torch.testing.assert_close(inferred(net), net(X, EDGES))
    for options, hops in (({"num_iterations": 2}, 2), ({"walk_length": 4}, 3)):
        with pytest.raises(ValueError, match=f"a layer sees {hops} edges far"):
            inferred(WLKernelNN(16, 8, 2, 4, **options))  # type: ignore[arg-type]
