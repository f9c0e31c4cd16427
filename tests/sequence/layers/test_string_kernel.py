"""The string layer against its equations, written out; its masks, its special cases, and its refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal, ptr_of
from wlkernelnn.sequence import StringKernelConv, to_list
from wlkernelnn.sequence.layers import string_kernel

D = 3


def made(in_channels: int = D, out_channels: int = D, **options: Any) -> StringKernelConv:
    layer = StringKernelConv(in_channels, out_channels, **options)
    randomize(layer)
    return layer


def some() -> list[Tensor]:
    return [normal(length, D) for length in (3, 0, 1, 4)]


def by_the_equations(layer: StringKernelConv, string: Tensor, state: Tensor | None = None) -> Tensor:
    """h of one string, from the layer's parameters, token by token."""
    width, n = layer.out_channels, layer.ngram
    known = dict(layer.named_parameters())
    c = [torch.zeros(width).double() if state is None else state[j] for j in range(n)]
    h = state[n] if state is not None and layer.feedback else torch.zeros(width).double()
    rows = []
    for x in string:
        if layer.decay.decay == "learned":
            decay: Any = 1 / (1 + torch.exp(-known["decay.logit"]))
        elif layer.decay.decay == "gated":
            last = 1 if layer.feedback else 0
            logits = known[f"decay.lins.{last}.weight"] @ x + known[f"decay.lins.{last}.bias"]
            if layer.feedback:
                logits = logits + known["decay.lins.0.weight"] @ h
            decay = 1 / (1 + torch.exp(-logits))
        else:
            decay = layer.decay.decay
        scale = 1 - decay if layer.normalize else 1
        before = [*c]
        for j in range(n):
            u = known[f"lins.{j}.weight"] @ x
            if j:
                u = before[j - 1] * u if layer.compose == "mul" else before[j - 1] + u
            c[j] = decay * before[j] + scale * u
        y = {
            "last": lambda c: c[-1],
            "sum": lambda c: sum(c),
            "learned": lambda c: sum(a * c_j for a, c_j in zip(known["mix"], c, strict=True)),
        }[layer.readout](c)
        h = y if layer.act is None else layer.act(y)
        if layer.highway is not None:
            f = 1 / (1 + torch.exp(-(known["highway.weight"] @ x + known["highway.bias"])))
            h = f * h + (1 - f) * x
        rows.append(h)
    return torch.stack(rows) if rows else string.new_zeros(0, width)


GATES: dict[str, dict[str, Any]] = {
    "constant": {"decay": 0.6},
    "learned": {"decay": "learned"},
    "gated": {"decay": "gated"},
    "feedback": {"decay": "gated", "feedback": True},
}


@settings(deadline=None, max_examples=80, derandomize=True)
@given(
    ngram=st.integers(1, 3),
    gate=st.sampled_from(list(GATES)),
    compose=st.sampled_from(["mul", "add"]),
    normalize=st.booleans(),
    readout=st.sampled_from(["last", "sum", "learned"]),
    act=st.sampled_from([None, "tanh", "prelu"]),
    highway=st.booleans(),
)
def test_equations(
    ngram: int, gate: str, compose: str, normalize: bool, readout: str, act: str | None, highway: bool
) -> None:
    layer = made(
        ngram=ngram,
        compose=compose,
        normalize=normalize,
        readout=readout,
        act=act,
        highway=highway,
        **GATES[gate],
    )
    strings = some()
    state = normal(ngram + layer.feedback, len(strings), D)
    x, ptr = end_to_end(strings)
    for before in (None, state):
        came, _ = layer(x, ptr, before)
        expected = [
            by_the_equations(layer, string, None if before is None else before[:, i])
            for i, string in enumerate(strings)
        ]
        torch.testing.assert_close(came, torch.cat(expected), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("gate", GATES)
def test_state_is_that_of_the_last_tokens(gate: str) -> None:
    """c_1 … c_n, and h behind them where the gate sees it."""
    layer = made(ngram=2, readout="sum", **GATES[gate])
    out, state = layer(normal(2, 3, D))
    assert state.shape == (3 if gate == "feedback" else 2, 2, D)
    torch.testing.assert_close(state[:2].sum(0), out[:, -1])
    if gate == "feedback":
        assert torch.equal(state[2], out[:, -1])


def test_parameters() -> None:
    """Pattern weights have no bias, a gate has one, and the combination starts as c_n."""
    layer = StringKernelConv(D, 5, 2, feedback=True, readout="learned")
    shapes = {name: tuple(parameter.shape) for name, parameter in layer.named_parameters()}
    assert shapes == {
        "lins.0.weight": (5, D),
        "lins.1.weight": (5, D),
        "decay.lins.0.weight": (5, 5),
        "decay.lins.1.weight": (5, D),
        "decay.lins.1.bias": (5,),
        "mix": (2, 5),
    }
    assert layer.mix is not None
    assert layer.mix.tolist() == [[0] * 5, [1] * 5]


# Special cases


def test_ran() -> None:
    """n = 1 with a gate: c_t = λ_t c_{t−1} + (1 − λ_t) W x_t, as in recurrent additive networks."""
    layer = made(ngram=1, act="tanh")
    gate, weight = layer.decay.lins[0], layer.lins[0].weight
    string = normal(5, D)
    came, _ = layer(string, ptr_of([5]))
    c = torch.zeros(D).double()
    for x, h in zip(string, came, strict=True):
        forget = torch.sigmoid(gate.weight @ x + gate.bias)
        c = forget * c + (1 - forget) * (weight @ x)
        torch.testing.assert_close(h, torch.tanh(c))


def test_t_rnn() -> None:
    """n = 1 on bigrams: c_t = λ_t c_{t−1} + (1 − λ_t) (W x_t + W' x_{t−1}), the gate of both as well."""
    string = normal(5, D)
    before = torch.cat([torch.zeros(1, D), string[:-1]])
    layer = made(2 * D, 4, ngram=1)
    came, _ = layer(torch.cat([string, before], dim=1), ptr_of([5]))
    now, then = layer.lins[0].weight.split(D, dim=1)
    gate = layer.decay.lins[0]
    gate_now, gate_then = gate.weight.split(D, dim=1)
    c = torch.zeros(4).double()
    for x, x_before, h in zip(string, before, came, strict=True):
        forget = torch.sigmoid(gate_now @ x + gate_then @ x_before + gate.bias)
        c = forget * c + (1 - forget) * (now @ x + then @ x_before)
        torch.testing.assert_close(h, c)


@pytest.mark.parametrize("compose", ["mul", "add"])
def test_a_normalised_layer_with_lambda_1_keeps_everything_and_takes_nothing(compose: str) -> None:
    layer, state = made(decay=1, compose=compose), normal(2, 3, D)
    out, after = layer(normal(3, 4, D), state=state)
    torch.testing.assert_close(after, state)
    torch.testing.assert_close(out, state[1].unsqueeze(1).expand(-1, 4, -1))


def test_a_string_of_fewer_than_n_tokens_has_no_pattern() -> None:
    layer = made(ngram=4)
    out, _ = layer(*end_to_end(some()))
    assert [bool(string.any()) for string in to_list(out, ptr_of([3, 0, 1, 4]))] == [
        False,
        False,
        False,
        True,
    ]


# Variational dropout


def test_masks_are_the_same_at_all_tokens_of_a_string() -> None:
    """λ = 0 and W = 1 show the mask of x itself: 0 or 1 / (1 − p), drawn for every string and channel."""
    layer = StringKernelConv(50, 50, 1, 0.0, dropout=0.25)
    torch.nn.init.eye_(layer.lins[0].weight)
    lengths = [3, 0, 1, 4]
    out, _ = layer(torch.ones(8, 50), ptr_of(lengths))
    masks = []
    for string in to_list(out, ptr_of(lengths)):
        assert torch.equal(string, string[:1].expand_as(string))
        masks.extend(string[:1])
    values, counts = torch.stack(masks).unique(return_counts=True)
    torch.testing.assert_close(values, torch.tensor([0, 1 / 0.75]))
    assert 15 < counts[0] < 65  # of 150, a quarter
    assert not torch.equal(masks[0], masks[2])
    assert not torch.equal(layer(torch.ones(8, 50), ptr_of(lengths))[0], out)


def test_the_mask_of_h_is_the_same_at_all_tokens() -> None:
    """The highway carries x + σ(c) with an open gate: with σ = 1 everywhere, m itself."""

    class One(torch.nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            return torch.ones_like(y) + 0 * y

    for feedback in (False, True):
        layer = StringKernelConv(20, 20, 1, feedback=feedback, highway=True, act=One(), dropout=0.5)
        assert layer.highway is not None
        torch.nn.init.constant_(layer.highway.bias, 50.0)  # f = 1
        out, _ = layer(torch.zeros(3, 4, 20))
        assert torch.equal(out, out[:, :1].expand_as(out))
        assert out.unique().tolist() == [0, 2]
        assert not torch.equal(out[0], out[1])


def test_the_gate_sees_h_through_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """One string again and again: with all of h dropped, the gate is that of tokens alone."""
    torch.manual_seed(3)
    layer = made(ngram=1, feedback=True, dropout=0.9)
    x = normal(1, 4, D)
    tokens_alone = made(ngram=1)
    tokens_alone.lins.load_state_dict(layer.lins.state_dict())
    tokens_alone.decay.lins[0].load_state_dict(layer.decay.lins[1].state_dict())
    none, all_of_h = torch.ones(1, D).double(), torch.zeros(1, D).double()
    masks = iter([none, all_of_h, none, none])  # of x and of h, twice
    monkeypatch.setattr(string_kernel, "locked_mask", lambda *_: next(masks))
    torch.testing.assert_close(layer(x)[0], tokens_alone(x)[0])
    torch.testing.assert_close(layer(x)[0], layer.eval()(x)[0])


def test_masks_are_off_in_evaluation() -> None:
    layer, x = made(feedback=True, highway=True, dropout=0.5), normal(2, 4, D)
    without = made(feedback=True, highway=True)
    without.load_state_dict(layer.state_dict())
    expected, _ = without(x)
    assert not torch.equal(layer(x)[0], expected)
    assert torch.equal(layer.eval()(x)[0], expected)


# What is written, and what is refused


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (StringKernelConv(16, 32), "StringKernelConv(16, 32, ngram=2, decay='gated')"),
        (
            StringKernelConv(-1, 32, 3, 0.5, compose="add"),
            "StringKernelConv(-1, 32, ngram=3, decay=0.5, compose='add')",
        ),
        (
            StringKernelConv(8, 8, 1, feedback=True, highway=True),
            "StringKernelConv(8, 8, ngram=1, decay='gated', feedback=True, highway=True)",
        ),
        (
            StringKernelConv(8, 4, normalize=False, act="relu", readout="learned", dropout=0.2),
            "StringKernelConv(8, 4, ngram=2, decay='gated', normalize=False, act=ReLU(), readout='learned', "
            "dropout=0.2)",
        ),
    ],
    ids=["default", "lazy", "feedback", "all"],
)
def test_repr(layer: StringKernelConv, text: str) -> None:
    assert repr(layer) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"in_channels": 0}, "in_channels must be an integer of at least 1, or -1 for lazy, got 0"),
        ({"out_channels": 0}, "out_channels must be an integer of at least 1, got 0"),
        ({"ngram": 0}, "ngram must be an integer of at least 1, got 0"),
        ({"decay": 1.5}, r"decay must be a float in \[0, 1\], \"learned\" or \"gated\", got 1.5"),
        ({"decay": -0.1}, r"got -0.1"),
        ({"decay": float("nan")}, r"got nan"),
        ({"decay": "open"}, r"got 'open'"),
        ({"compose": "max"}, "compose must be one of mul, add, got 'max'"),
        ({"readout": "mean"}, "readout must be one of last, sum, learned, got 'mean'"),
        ({"feedback": True, "decay": 0.5}, 'it needs decay="gated", got decay=0.5'),
        ({"highway": True}, "it needs in_channels = out_channels, got 3 and 4"),
        ({"decay": True}, "got True"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"dropout": -0.1}, r"dropout must be in \[0, 1\), got -0.1"),
        ({"act": "no such thing"}, "Could not resolve"),
        (
            {"act": torch.nn.ReLU(inplace=True)},
            r"act must leave its input as it is, got ReLU\(inplace=True\)",
        ),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StringKernelConv(**{"in_channels": 3, "out_channels": 4, **arguments})


@pytest.mark.parametrize("feedback", [False, True], ids=["", "feedback"])
@pytest.mark.parametrize("highway", [False, True], ids=["", "highway"])
@pytest.mark.parametrize("readout", ["last", "sum", "learned"])
def test_under_autocast_states_keep_their_precision(feedback: bool, highway: bool, readout: str) -> None:
    layer = StringKernelConv(4, 4, 2, feedback=feedback, highway=highway, readout=readout, dropout=0.2)
    layer.eval()
    x = torch.randn(2, 3, 4, requires_grad=True)
    expected, _ = layer(x)
    layer.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, state = layer(x)
        out, state = layer(x, state=state)
        layer.eval()
        whole, _ = layer(x)
    out.sum().backward()
    assert x.grad is not None
    assert out.dtype == state.dtype == torch.float32
    torch.testing.assert_close(whole, expected, rtol=0.0, atol=0.02)


def test_learned_decay_under_autocast() -> None:
    layer = StringKernelConv(4, 4, 2, decay="learned", highway=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, _ = layer(torch.randn(2, 3, 4))
    assert out.dtype == torch.float32


def test_an_activation_that_does_not_learn() -> None:
    conv = StringKernelConv(3, 4, act=torch.nn.PReLU(), feedback=True)
    free = copy.deepcopy(conv)
    conv.act.requires_grad_(False)
    x = torch.randn(2, 5, 3)
    for layer in (conv, free):
        layer(x)[0].sum().backward()
    assert conv.act.weight.grad is None
    assert free.act.weight.grad is not None
    torch.testing.assert_close(conv.lins[0].weight.grad, free.lins[0].weight.grad)


def test_second_derivatives_where_a_state_learns_nothing() -> None:
    conv = StringKernelConv(3, 4, ngram=2).double()
    conv.lins[0].requires_grad_(False)
    conv.decay.requires_grad_(False)
    x = torch.randn(2, 5, 3, dtype=torch.float64)

    def force(weight: Tensor) -> Tensor:
        (found,) = torch.autograd.grad(conv(x)[0].square().sum(), weight, create_graph=True)
        return found.square().sum()

    weight = conv.lins[1].weight
    (came,) = torch.autograd.grad(force(weight), weight)
    step = 1e-6 * torch.randn_like(weight)
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * step
        ends.append(force(weight).detach())
        with torch.no_grad():
            weight -= sign * step
    torch.testing.assert_close((came * step).sum(), (ends[0] - ends[1]) / 2, rtol=1e-5, atol=1e-12)
