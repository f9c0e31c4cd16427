from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.molecules import classification_set, regression_set, small_network
from wlkernelnn.datasets import PackedLoader, molecules_from
from wlkernelnn.training import embed, predict


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
