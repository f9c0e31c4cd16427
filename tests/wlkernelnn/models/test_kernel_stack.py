from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import PackedLoader
from wlkernelnn.models import KernelStack


def molecules(num: int = 6) -> Data:
    return next(iter(PackedLoader(regression_set()[:num], num)))


def states(batch: Data, channels: int = 4) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(batch.num_nodes, channels, dtype=torch.double)


def stack(**options: object) -> KernelStack:
    torch.manual_seed(0)
    return KernelStack(4, num_edge_types=64, **options).double()  # type: ignore[arg-type]


@pytest.mark.parametrize("jumping", ["last", "sum", "cat"])
def test_layers_are_normalised_and_added(jumping: str) -> None:
    batch, net = molecules(), stack(num_layers=3, jumping=jumping)
    edge_index = batch.edge_index.as_tensor()
    h = states(batch)
    all_states = [h]
    for conv, norm in zip(net.convs, net.norms, strict=True):
        h = h + conv(norm(h), edge_index, edge_type=batch.edge_type)
        all_states.append(h)
    expected = {"last": h, "sum": sum(all_states), "cat": torch.cat(all_states, 1)}[jumping]
    came = net(states(batch), batch.edge_index, batch.edge_type)
    torch.testing.assert_close(came, expected)
    assert came.size(1) == net.out_channels


@pytest.mark.parametrize("residual", [False, True])
def test_plain_stacks(residual: bool) -> None:
    batch, net = molecules(), stack(num_layers=2, residual=residual, layer_norm=False)
    h = states(batch)
    for conv in net.convs:
        h = conv(h, batch.edge_index, edge_type=batch.edge_type) + (h if residual else 0)
    torch.testing.assert_close(net(states(batch), batch.edge_index, batch.edge_type), h)
    assert not [name for name, _ in net.named_parameters() if name.startswith("norms")]


def test_virtual_nodes_stand_between_layers() -> None:
    batch, net = molecules(), stack(num_layers=3, virtual_node=True)
    h, g = states(batch), torch.zeros(6, 4, dtype=torch.double)
    for layer, (conv, norm) in enumerate(zip(net.convs, net.norms, strict=True)):
        if layer:
            h, g = net.virtual_nodes[layer - 1](h, g, batch.ptr, batch.batch)
        h = h + conv(norm(h), batch.edge_index, edge_type=batch.edge_type)
    came = net(states(batch), batch.edge_index, batch.edge_type, batch.ptr, batch.batch)
    torch.testing.assert_close(came, h)


def test_a_virtual_node_needs_to_know_the_graphs() -> None:
    batch = molecules()
    with pytest.raises(ValueError, match="needs ptr and batch"):
        stack(virtual_node=True)(states(batch), batch.edge_index, batch.edge_type)


def test_dropout_acts_on_the_layers() -> None:
    batch, net = molecules(), stack(num_layers=2, dropout=0.5)
    arguments = (states(batch), batch.edge_index, batch.edge_type)
    assert not torch.equal(net(*arguments), net(*arguments))
    net.eval()
    assert torch.equal(net(*arguments), net(*arguments))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, got 0"),
        ({"jumping": "max"}, "jumping must be one of last, sum, cat, got 'max'"),
        ({"dropout": 1.0}, r"dropout of layers must be in \[0, 1\), got 1.0"),
        ({"compose": "max"}, "compose"),
    ],
    ids=str,
)
def test_bad_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stack(**options)


def test_reset() -> None:
    net = stack(num_layers=2, virtual_node=True)
    before = {name: value.clone() for name, value in net.named_parameters() if value.dim() == 2}
    net.reset_parameters()
    assert all(not torch.equal(net.get_parameter(name), value) for name, value in before.items())
