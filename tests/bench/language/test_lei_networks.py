from __future__ import annotations

import math

import torch

from wlkernelnn.bench.language.lei_networks import release_init
from wlkernelnn.bench.language.recurrent import Recurrent
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
    lstm = Recurrent(torch.nn.LSTM, d, d).layer
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
