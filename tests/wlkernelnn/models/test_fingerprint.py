from __future__ import annotations

import torch

from wlkernelnn.models.fingerprint import FingerprintEncoder


def test_written_out_for_counts_of_any_type() -> None:
    torch.manual_seed(0)
    encoder = FingerprintEncoder(6, 4, dropout=0.5).double().eval()
    counts = torch.randint(0, 256, (3, 6), dtype=torch.uint8)
    lin = encoder.lin
    expected = (counts.double().add(1).log() @ lin.weight.T + lin.bias).relu()
    torch.testing.assert_close(encoder(counts), expected)


def test_reset() -> None:
    encoder = FingerprintEncoder(6, 4)
    before = encoder.lin.weight.clone()
    encoder.reset_parameters()
    assert not torch.equal(encoder.lin.weight, before)
