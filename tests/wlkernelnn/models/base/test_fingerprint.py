from __future__ import annotations

import pytest
import torch

from wlkernelnn.models.base.fingerprint import FingerprintEncoder


def test_written_out_for_counts_of_any_type() -> None:
    torch.manual_seed(0)
    encoder = FingerprintEncoder(6, 4, dropout=0.5).double().eval()
    counts = torch.randint(0, 256, (3, 6), dtype=torch.uint8)
    lin = encoder.lin
    expected = (counts.double().add(1).log() @ lin.weight.T + lin.bias).relu()
    torch.testing.assert_close(encoder(counts), expected)


def test_written_out_for_numbers() -> None:
    torch.manual_seed(0)
    encoder = FingerprintEncoder(4, 3).double()
    x = torch.tensor(
        [[1e9, -2.0, 7.0, 0.0], [3.0, 5.0, 7.0, 1.0], [-8.0, 0.5, 7.0, 0.0]], dtype=torch.float64
    )
    encoder.scale(x)
    values = x.asinh()
    std = values.std(0, correction=0)
    std[2] = 1.0  # nothing differs
    scaled = (values - values.mean(0)) / std
    expected = (scaled @ encoder.lin.weight.T + encoder.lin.bias).relu()
    torch.testing.assert_close(encoder(x), expected)
    far = encoder(torch.full((1, 4), 1e300, dtype=torch.float64))
    torch.testing.assert_close(far, (5 * encoder.lin.weight.sum(1) + encoder.lin.bias).relu()[None])


def test_reset() -> None:
    encoder = FingerprintEncoder(6, 4)
    before = encoder.lin.weight.clone()
    encoder.reset_parameters()
    assert not torch.equal(encoder.lin.weight, before)


def test_no_values() -> None:
    with pytest.raises(ValueError, match="num_values must be an integer of at least 1, got -1"):
        FingerprintEncoder(-1, 4)


def test_far_below_the_mean() -> None:
    net = FingerprintEncoder(1, 3)
    net.scale(torch.tensor([[1.0], [2.0]]))
    torch.testing.assert_close(net(torch.tensor([[-1e9]])), net(torch.tensor([[-1e12]])))
