"""The RKM: what is drawn, written and refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.sequence import RKM
from wlkernelnn.sequence.layers.rkm import VARIANTS

D, K = 3, 4


def test_forget_bias() -> None:
    torch.manual_seed(0)
    plain = RKM(D, 100, "rkm_cifg")
    torch.manual_seed(0)
    model = RKM(D, 100, "rkm_cifg", forget_bias=1.0)
    f, o = (model.bias - plain.bias).split(100)
    torch.testing.assert_close(f, torch.ones(100))
    assert not o.any()


def test_filters_are_drawn_as_in_a_convolution() -> None:
    for model in (RKM(100, 50, ngram=4), RKM(-1, 50, ngram=4)):
        model(torch.randn(1, 2, 100))
        bound = (4 * 100) ** -0.5
        for lin in model.lins:
            assert 0.9 * bound < lin.weight.abs().max() <= bound


def test_short_filters_are_drawn_like_those_of_a_short_machine() -> None:
    """A channel of n tokens is as strong as one of a machine of n tokens, in c̃ and in every gate."""
    lengths = [1, 4, 2] * 20
    for model in (RKM(200, 60, "rkm_cifg", lengths), RKM(-1, 60, "rkm_cifg", lengths)):
        model(torch.randn(1, 2, 200))
        for lag, lin in enumerate(model.lins):
            for part in lin.weight.split(60):
                for channel, length in enumerate(lengths):
                    if lag < length:
                        bound = (length * 200) ** -0.5
                        assert 0.9 * bound < part[channel].abs().max() <= bound


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("feedback", [True, False], ids=["feedback", "at_once"])
@pytest.mark.parametrize("filters", ["free", "sync"])
def test_under_autocast_states_keep_their_precision(variant: str, feedback: bool, filters: str) -> None:
    model, x = RKM(D, K, variant, 2, feedback=feedback, filters=filters), torch.randn(2, 3, D)
    expected, _ = model(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, state = model(x)
    out.sum().backward()
    assert all(part.dtype == torch.float32 for part in (out, *state))
    torch.testing.assert_close(out, expected, rtol=0.0, atol=0.03)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (RKM(16, 32), "RKM(16, 32, variant='rkm_lstm', ngram=1, layer_norm='output')"),
        (
            RKM(-1, 32, "ran", 3, 2, layer_norm=False, feedback=False),
            "RKM(-1, 32, variant='ran', ngram=3, dilation=2, layer_norm=False, feedback=False)",
        ),
        (
            RKM(8, 8, "lstm", 40, layer_norm="state", filters="sync"),
            "RKM(8, 8, variant='lstm', ngram=40, layer_norm='state', filters='sync')",
        ),
        (RKM(8, 8, "cnn"), "RKM(8, 8, variant='cnn', ngram=1, layer_norm='output', sigma_i2=1.0)"),
        (
            RKM(8, 2, "linear", np.array([1, 3]), sigma_f2="learned"),
            "RKM(8, 2, variant='linear', ngram=[1, 3], layer_norm='output', sigma_i2=0.5, "
            "sigma_f2='learned')",
        ),
        (
            RKM(8, 8, "lstm", np.int64(2), forget_bias=1.0),
            "RKM(8, 8, variant='lstm', ngram=2, layer_norm='output', forget_bias=1.0)",
        ),
    ],
    ids=["default", "lazy", "sync", "cnn", "linear", "forget_bias"],
)
def test_repr(model: RKM, text: str) -> None:
    assert repr(model) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 0}, "in_channels must be an integer of at least 1, or -1 for lazy, got 0"),
        ({"out_channels": 0}, "out_channels must be an integer of at least 1, got 0"),
        ({"variant": "gru"}, "variant must be one of lstm, rkm_lstm, .*, got 'gru'"),
        ({"ngram": 0}, "ngram must be an integer of at least 1, got 0"),
        ({"ngram": 2.0}, r"ngram must be an integer of at least 1, got 2\.0"),
        ({"ngram": True}, "ngram must be an integer of at least 1, got True"),
        ({"ngram": [1, 0, 1, 1]}, "ngram must be an integer of at least 1, got 0"),
        ({"ngram": "1212"}, "ngram must be an integer of at least 1, got '1'"),
        ({"ngram": []}, "a number for each of 4 channels, got 0"),
        ({"ngram": [1, 2]}, "a number for each of 4 channels, got 2"),
        ({"ngram": [1, 2, 3, 4], "filters": "sync"}, "of filters='sync'"),
        ({"dilation": 0}, "dilation must be an integer of at least 1, got 0"),
        ({"dilation": 1.5}, r"dilation must be an integer of at least 1, got 1\.5"),
        ({"forget_bias": float("nan")}, "forget_bias must be a finite number, got nan"),
        ({"forget_bias": "1"}, "forget_bias must be a finite number, got '1'"),
        ({"layer_norm": "both"}, 'layer_norm must be "output", "state" or a bool, got \'both\''),
        ({"filters": "gabor"}, 'filters must be "free" or "sync", got \'gabor\''),
        ({"filters": "sync", "in_channels": -1}, 'filters="sync" needs to know in_channels, got -1'),
        ({"sigma_f2": 0.5}, "sigma_f2 is not in variant 'rkm_lstm', got sigma_f2=0.5"),
        ({"sigma_f2": 0.5, "variant": "cnn"}, "sigma_f2 is not in variant 'cnn'"),
        (
            {"sigma_i2": 1.5, "variant": "linear"},
            r'sigma_i2 must be a float in \[0, 1\] or "learned", got 1.5',
        ),
        ({"variant": "linear", "sigma_f2": True}, "sigma_f2 must be a float .* got True"),
        ({"sigma_f2": "gated", "variant": "linear"}, "got 'gated'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RKM(**{"in_channels": D, "out_channels": K, **arguments})


@pytest.mark.parametrize(
    "wrong", [(), (torch.zeros(2, K),), torch.zeros(2, 2, K)], ids=["none", "one", "tensor"]
)
def test_states_that_do_not_match(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"RKM needs a state of 2 parts \(c, h\), got"):
        RKM(D, K)(torch.zeros(2, 3, D), state=wrong)
    with pytest.raises(ValueError, match=r"RKM: h needs a state of shape \[2, 4\], got \[2, 5\]"):
        RKM(D, K)(torch.zeros(2, 3, D), state=(torch.zeros(2, K), torch.zeros(2, K + 1)))
