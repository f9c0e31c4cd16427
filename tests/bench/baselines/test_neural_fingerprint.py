from __future__ import annotations

import torch

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.baselines.neural_fingerprint import NeuralFingerprintConv, NeuralFingerprintNetwork
from wlkernelnn.datasets import PackedLoader, load_molecules


def test_layer_is_its_equation() -> None:
    edges = [(0, 1, 0), (1, 0, 0), (1, 2, 1), (2, 1, 1)]
    conv = NeuralFingerprintConv(4, 2).double()
    r = torch.randn(4, 4, dtype=torch.float64)
    rows = []
    for v in range(4):
        row = conv.lin_self.weight @ r[v] + conv.lin_self.bias
        for source, target, t in edges:
            if target == v:
                row = row + conv.lin_neighbors.weight @ r[source] + conv.edge_map.table[t]
        rows.append(row)
    total = torch.stack(rows)
    normalised = (total - total.mean(0)) / (total.var(0, correction=0) + conv.norm.module.eps).sqrt()
    edge_index = torch.tensor([[u, v] for u, v, _ in edges]).T
    edge_type = torch.tensor([t for *_, t in edges])
    torch.testing.assert_close(conv(r, edge_index, edge_type), normalised.relu())


def test_every_atom_and_layer_writes_one() -> None:
    data = regression_set()
    net = NeuralFingerprintNetwork.from_data(data, hidden_channels=8, num_layers=3, norm=False)
    batch = next(iter(PackedLoader(data, 5)))
    written = net.states(batch.x, batch)
    torch.testing.assert_close(written.sum(1), torch.full((len(batch.x),), 3.0))
    assert (written > 0).all()


def test_network() -> None:
    data = regression_set()
    net = NeuralFingerprintNetwork.from_data(data, hidden_channels=8)
    for batch in PackedLoader(data, 20):
        net(batch)  # statistics of the batch normalisation
    net.eval()
    again = NeuralFingerprintNetwork(**net.config)
    again.load_state_dict(net.state_dict())
    batch = next(iter(PackedLoader(data, 9)))
    torch.testing.assert_close(again.eval()(batch), net(batch))
    alone = torch.cat([net(single) for single in PackedLoader(data[:9], 1)])
    torch.testing.assert_close(net(batch), alone, rtol=1e-4, atol=1e-5)
    net.reset_parameters()
    assert not torch.allclose(again(batch), net(batch))


def test_a_single_atom() -> None:
    data = load_molecules(["C"], y=[1.0], cache=False)
    net = NeuralFingerprintNetwork.from_data(data, hidden_channels=8).train()
    assert net(next(iter(PackedLoader(data, 1)))).isfinite().all()
