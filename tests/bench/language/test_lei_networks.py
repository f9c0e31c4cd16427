from __future__ import annotations

import math

import torch

from wlkernelnn.bench.language.lei_networks import LSTM, release_init
from wlkernelnn.sequence import LanguageModel, StringKernelNetwork


def test_initial_weights() -> None:
    d = 400
    net = LanguageModel(50, StringKernelNetwork(d, d, 1, ngram=1, feedback=True, highway=True))
    for parameter in net.parameters():
        torch.nn.init.constant_(parameter, 7.0)
    release_init(net)
    (layer,) = net.encoder.layers
    of_h, of_x = layer.decay.lins
    for weight, inputs in (
        (layer.lins[0].weight, d),
        (of_h.weight, 2 * d),
        (of_x.weight, 2 * d),
        (layer.highway.weight, d),
        (net.embedding.weight, d),
    ):
        assert weight.abs().max() <= math.sqrt(3 / inputs)
        assert abs(weight.var().item() * inputs - 1) < 0.05
    for bias in (of_x.bias, layer.highway.bias, net.bias):
        assert (bias == 0).all()


def test_initial_weights_of_the_lstm_beside_them() -> None:
    d = 400
    lstm = LSTM(d, d).lstm
    release_init(lstm)
    for weight in (lstm.weight_ih_l0, lstm.weight_hh_l0):
        assert weight.abs().max() <= math.sqrt(3 / d)
        assert abs(weight.var().item() * d - 1) < 0.05
    for bias in (lstm.bias_ih_l0, lstm.bias_hh_l0):
        assert (bias == 0).all()


def test_frozen_embeddings_are_left_alone() -> None:
    embedding = torch.nn.Embedding.from_pretrained(torch.full((3, 2), 7.0))
    release_init(embedding)
    assert (embedding.weight == 7.0).all()


def test_lstm_is_torchs_on_ragged_strings() -> None:
    lstm = LSTM(3, 4)
    strings = [torch.randn(n, 3) for n in (2, 0, 5, 3)]
    ptr = torch.tensor([0, 2, 2, 7, 10])
    state = torch.randn(2, 4, 4)
    out, after = lstm(torch.cat(strings), ptr, state)
    for i, string in enumerate(strings):
        h, c = (part[i].view(1, 1, -1).contiguous() for part in state)
        if not len(string):
            torch.testing.assert_close(after[:, i], state[:, i])
            continue
        expected, (h, c) = lstm.lstm(string.unsqueeze(1), (h, c))
        torch.testing.assert_close(out[ptr[i] : ptr[i + 1]], expected.squeeze(1))
        torch.testing.assert_close(after[:, i], torch.stack([h.view(-1), c.view(-1)]))


def test_lstm_of_no_strings() -> None:
    out, state = LSTM(3, 4)(torch.zeros(0, 5, 3))
    assert out.shape == (0, 5, 4)
    assert state.shape == (2, 0, 4)


def test_lstm_of_nothing_but_empty_strings() -> None:
    out, state = LSTM(3, 4)(torch.zeros(0, 3), torch.zeros(3, dtype=torch.long))
    assert out.shape == (0, 4)
    assert (state == 0).all()
