from __future__ import annotations

import pytest

from wlkernelnn.sequence import StringKernelConv, StringKernelNetwork


def test_layers() -> None:
    net = StringKernelNetwork(
        3, 5, num_layers=3, dropout=0.4, jumping="cat", rnn_dropout=0.2, ngram=2, decay=0.5, act="relu"
    )
    assert (net.in_channels, net.out_channels, net.dropout, net.jumping) == (3, 15, 0.4, "cat")
    layers = [layer for layer in net.layers if isinstance(layer, StringKernelConv)]
    assert [(layer.in_channels, layer.out_channels) for layer in layers] == [(3, 5), (5, 5), (5, 5)]
    for layer in layers:
        assert (layer.ngram, layer.decay.decay, layer.dropout) == (2, 0.5, 0.2)
        assert layer.act is not None


def test_layers_share_nothing() -> None:
    net = StringKernelNetwork(5, 5, num_layers=2)
    first, second = (sum(p.numel() for p in layer.parameters()) for layer in net.layers)
    assert first == second
    assert sum(p.numel() for p in net.parameters()) == 2 * first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_layers": 0}, "num_layers must be an integer of at least 1, got 0"),
        ({"rnn_dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"highway": True}, "it needs in_channels = out_channels, got 3 and 5"),
        ({"jumping": "max"}, "jumping must be"),
    ],
    ids=["layers", "dropout", "highway", "jumping"],
)
def test_bad_arguments(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StringKernelNetwork(3, 5, **options)


def test_unknown_option() -> None:
    with pytest.raises(TypeError, match="n_gram"):
        StringKernelNetwork(3, 5, n_gram=2)
