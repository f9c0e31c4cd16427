from __future__ import annotations

import torch

from tests.molecules import regression_set
from wlkernelnn.bench.baselines.random_walk_network import RandomWalkNetwork
from wlkernelnn.datasets import PackedLoader


def test_states_are_those_of_the_layer() -> None:
    data = regression_set()
    net = RandomWalkNetwork.from_data(data, hidden_channels=8, walk_length=3, decay=0.5, all_lengths=False)
    batch = next(iter(PackedLoader(data, 5)))
    h = net.encoder(batch.x).relu()
    first, second, third = (lin.weight for lin in net.conv.lins)
    source, target = batch.edge_index.as_subclass(torch.Tensor)
    c = h @ first.T
    for step, weight in enumerate((second, third)):
        message = c[source] * net.conv.edge_factors[step].table[batch.edge_type]
        c = 0.5 * torch.zeros_like(c).index_add(0, target, message) * (h @ weight.T)
    torch.testing.assert_close(net.states(batch.x, batch), c)


def test_by_colours() -> None:
    data = regression_set()
    net = RandomWalkNetwork.from_data(data, hidden_channels=8)
    assert net.quotient_depth == 4
    plain = RandomWalkNetwork(**net.config | {"quotient": False})
    plain.load_state_dict(net.state_dict())
    batch = next(iter(PackedLoader(data, 30, quotient=4)))
    torch.testing.assert_close(net(batch), plain(batch), rtol=1e-4, atol=1e-5)
