"""The RKM family: what it is equal to, and what it remembers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import LENGTHS, normal, ptr_of
from wlkernelnn.sequence import RKM
from wlkernelnn.sequence.layers.rkm import VARIANTS

D, K = 3, 4


def made(*arguments: Any, **options: Any) -> RKM:
    model = RKM(D, K, *arguments, **options)
    randomize(model)
    return model


def taken_from(model: RKM, parts: str, other: RKM) -> None:
    """Give a model the weights of another one: of its parts, c̃ and gates, those of the parts named here."""
    names = parts.split()

    def chosen(weight: Tensor, of: tuple[str, ...], wanted: list[str]) -> Tensor:
        rows = dict(zip(of[len(of) - len(weight) // K :], weight.split(K), strict=True))
        return torch.cat([rows[name] for name in wanted])

    with torch.no_grad():
        for lin, source in zip(model.lins, other.lins, strict=True):
            lin.weight.copy_(chosen(source.weight, other.cell.parts, names))
        seeing = names[len(names) - model.cell.num_seeing :]
        if model.lin_h is not None and other.lin_h is not None:
            model.lin_h.weight.copy_(chosen(other.lin_h.weight, other.cell.parts, seeing))
        if model.bias is not None and other.bias is not None:
            model.bias.copy_(chosen(other.bias, other.cell.parts, names[len(names) - len(model.bias) // K :]))
        if model.norm is not None and other.norm is not None:
            model.norm.load_state_dict(other.norm.state_dict())


# The family


WEIGHTS = {  # Liang et al., Table 1: of words of m values, for c and h of d
    "lstm": lambda nm, d: (nm + d) * 4 * d,
    "rkm_lstm": lambda nm, d: (nm + d) * 4 * d,
    "rkm_cifg": lambda nm, d: (nm + d) * 3 * d,
    "linear_gated": lambda nm, d: (nm + d) * 2 * d,
    "linear": lambda nm, d: (nm + d) * d,
    "gated_cnn": lambda nm, d: nm * 2 * d,
    "cnn": lambda nm, d: nm * d,
}
PRINTED = {1: [720, 720, 540, 360, 180, 180, 90], 3: [1440, 1440, 1080, 720, 360, 540, 270]}  # Table 2


@pytest.mark.parametrize("ngram", [1, 3])
@pytest.mark.parametrize("variant", WEIGHTS)
def test_weights_are_those_of_the_paper(variant: str, ngram: int) -> None:
    model = RKM(300, 300, variant, ngram)
    matrices = sum(p.numel() for p in model.parameters() if p.dim() == 2)
    assert matrices == WEIGHTS[variant](ngram * 300, 300)
    assert matrices == 1000 * PRINTED[ngram][list(WEIGHTS).index(variant)]


@pytest.mark.parametrize("interrupted", [False, True], ids=["at_once", "interrupted"])
def test_lstm_is_torchs(interrupted: bool) -> None:
    theirs = torch.nn.LSTM(D, K).double()
    ours = RKM(D, K, "lstm", layer_norm=False).double()

    def reordered(weight: Tensor) -> Tensor:
        i, f, new, o = weight.chunk(4)
        return torch.cat([new, i, f, o])

    with torch.no_grad():
        ours.lins[0].weight.copy_(reordered(theirs.weight_ih_l0))
        ours.lin_h.weight.copy_(reordered(theirs.weight_hh_l0))
        ours.bias.copy_(reordered(theirs.bias_ih_l0 + theirs.bias_hh_l0))
    x, c, h = normal(6, 2, D).requires_grad_(), normal(2, K).requires_grad_(), normal(2, K).requires_grad_()
    expected, (h_n, c_n) = theirs(x, (h.unsqueeze(0), c.unsqueeze(0)))
    turned = x.transpose(0, 1)
    if interrupted:
        first, state = ours(turned[:, :2], state=(c, h))
        rest, state = ours(turned[:, 2:], state=state)
        out = torch.cat([first, rest], 1)
    else:
        out, state = ours(turned, state=(c, h))
    came, wanted = [out.transpose(0, 1), *state], [expected, c_n[0], h_n[0]]
    weights = [
        (theirs.weight_ih_l0, ours.lins[0].weight),
        (theirs.weight_hh_l0, ours.lin_h.weight),
        (theirs.bias_ih_l0, ours.bias),
    ]
    grads = torch.autograd.grad(
        sum(part.pow(3).sum() for part in wanted), [x, c, h, *(weight for weight, _ in weights)]
    )
    found = torch.autograd.grad(
        sum(part.pow(3).sum() for part in came), [x, c, h, *(weight for _, weight in weights)]
    )
    grads = [*grads[:3], *map(reordered, grads[3:])]
    for value, other in zip([*came, *found], [*wanted, *grads], strict=True):
        torch.testing.assert_close(value, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", ["cnn", "gated_cnn"])
@pytest.mark.parametrize(("ngram", "dilation"), [(1, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("layer_norm", ["output", "state", False])
def test_cnns_are_convolutions(variant: str, ngram: int, dilation: int, layer_norm: bool | str) -> None:
    model, x = made(variant, ngram, dilation, layer_norm=layer_norm), normal(2, 5, D)
    weight = torch.stack([lin.weight for lin in model.lins][::-1], dim=2)
    padded = torch.nn.functional.pad(x.transpose(1, 2), ((ngram - 1) * dilation, 0))
    bias = torch.zeros(len(weight)).double()
    if model.bias is not None:
        bias[K:] = model.bias
    convolved = torch.nn.functional.conv1d(padded, weight, bias, dilation=dilation).transpose(1, 2)
    c = convolved[..., :K] if model.norm is None else model.norm(convolved[..., :K])
    expected = torch.sigmoid(convolved[..., K:]) * c if variant == "gated_cnn" else torch.tanh(c)
    torch.testing.assert_close(model(x)[0], expected)
    strings = normal(7, D)
    out, _ = model(strings, ptr_of([4, 0, 3]))
    torch.testing.assert_close(out[4:], model(strings[4:].unsqueeze(0))[0][0])


@pytest.mark.parametrize("layer_norm", ["output", "state", False])
def test_cifg_is_the_lstm_with_inputs_gate_1_minus_f(layer_norm: bool | str) -> None:
    """sigmoid(−z) = 1 − sigmoid(z): the gate i has the weights of f with the other sign."""
    cifg, lstm = made("rkm_cifg", 2, layer_norm=layer_norm), made("rkm_lstm", 2, layer_norm=layer_norm)
    taken_from(lstm, "cell forget forget output", cifg)
    with torch.no_grad():
        for weight in (*(lin.weight for lin in lstm.lins), lstm.lin_h.weight):
            weight[K : 2 * K] *= -1
        lstm.bias[:K] *= -1
    x, ptr = normal(11, D), ptr_of(LENGTHS["ragged"])
    for came, wanted in zip(flat(cifg(x, ptr)), flat(lstm(x, ptr)), strict=True):
        torch.testing.assert_close(came, wanted)


@pytest.mark.parametrize("layer_norm", ["output", "state", False])
def test_ran_is_the_lstm_without_o_whose_memory_does_not_see_h(layer_norm: bool | str) -> None:
    ran, lstm = made("ran", 2, layer_norm=layer_norm), made("rkm_lstm", 2, layer_norm=layer_norm)
    with torch.no_grad():
        for mine, theirs in zip(lstm.lins, ran.lins, strict=True):
            mine.weight.zero_()[: 3 * K] = theirs.weight
        lstm.lin_h.weight.zero_()[K : 3 * K] = ran.lin_h.weight
        lstm.bias.fill_(50.0)[: 2 * K] = ran.bias  # o = 1
    if lstm.norm is not None:
        lstm.norm.load_state_dict(ran.norm.state_dict())
    x, ptr = normal(11, D), ptr_of(LENGTHS["ragged"])
    for came, wanted in zip(flat(ran(x, ptr)), flat(lstm(x, ptr)), strict=True):
        torch.testing.assert_close(came, wanted)
    of_tanh = made("ran_tanh", feedback=False, layer_norm=False)
    plain = made("ran", feedback=False, layer_norm=False)
    plain.load_state_dict(of_tanh.state_dict())
    torch.testing.assert_close(of_tanh(x, ptr)[0], torch.tanh(plain(x, ptr)[0]))


def flat(result: tuple[Tensor, tuple[Tensor, ...]]) -> list[Tensor]:
    return [result[0], *result[1]]


@pytest.mark.parametrize("variant", [name for name, cell in VARIANTS.items() if cell.forget is not None])
@pytest.mark.parametrize("layer_norm", ["output", "state", False])
def test_without_feedback_it_is_the_machine_whose_weights_of_h_are_0(
    variant: str, layer_norm: bool | str
) -> None:
    seeing = made(variant, 2, layer_norm=layer_norm)
    blind = made(variant, 2, layer_norm=layer_norm, feedback=False)
    torch.nn.init.zeros_(seeing.lin_h.weight)
    blind.load_state_dict({k: v for k, v in seeing.state_dict().items() if not k.startswith("lin_h")})
    ptr = ptr_of(LENGTHS["ragged"])
    before, blind_before = None, None
    for x in (normal(11, D), normal(11, D)):  # the second time with what came before
        out, before = seeing(x, ptr, before)
        found, blind_before = blind(x, ptr, blind_before)
        c, _, window = before
        for came, wanted in zip([found, *blind_before], [out, c, window], strict=True):
            torch.testing.assert_close(came, wanted)


# Memory


@pytest.mark.parametrize("variant", ["linear", "linear_gated"])
@pytest.mark.parametrize("sigma_f2", [0.0, 0.3, "learned"])
def test_memory_fades_geometrically(variant: str, sigma_f2: float | str) -> None:
    """∂c_t/∂c̃_{t−N} = σ_i² σ_f^{2N} without feedback and layer norm; with σ_f = 0 there is no memory."""
    options = {"sigma_i2": 0.6, "sigma_f2": sigma_f2, "feedback": False, "layer_norm": False}
    model = RKM(K, K, variant, **options).double()
    randomize(model)
    assert model.scale_f is not None
    f = model.scale_f()
    with torch.no_grad():
        model.lins[0].weight[:K] = torch.eye(K)  # c̃ = x
    x = normal(1, 5, K).requires_grad_()
    _, (c,) = model(x)
    for channel in range(K):
        (grad,) = torch.autograd.grad(c[0, channel], x, retain_graph=True)
        decay = f if isinstance(f, float) else f[channel].detach()
        expected = torch.zeros(5, K).double()
        expected[:, channel] = 0.6 * torch.as_tensor(decay).double() ** torch.arange(4, -1, -1)
        torch.testing.assert_close(grad[0], expected)


def test_learned_scales_start_at_one_half() -> None:
    for variant in ("linear", "linear_gated"):
        constant, learned = (
            RKM(D, K, variant, **s) for s in ({}, {"sigma_i2": "learned", "sigma_f2": "learned"})
        )
        learned.load_state_dict({**learned.state_dict(), **constant.state_dict()})
        x = torch.randn(2, 5, D)
        torch.testing.assert_close(learned(x)[0], constant(x)[0])
        shapes = [tuple(scale.logit.shape) for scale in (learned.scale_i, learned.scale_f)]
        assert shapes == [(1,), (K,)]
    assert RKM(D, K, "cnn").scale_i() == 1
    assert RKM(D, K, "gated_cnn", sigma_i2=0.5).scale_i() == 0.5


@pytest.mark.parametrize("variant", VARIANTS)
def test_with_layer_norm_nothing_grows(variant: str) -> None:
    model = RKM(D, K, variant).double()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=3.0)
    out, _ = model(10 * normal(1, 300, D))
    assert out.abs().max() < 2.01  # √(K): what layer norm lets through


# Windows


def test_channels_of_different_lengths() -> None:
    lengths = [1, 3, 2, 3]
    model, full = made("rkm_lstm", lengths), made("rkm_lstm", 3)
    full.load_state_dict(model.state_dict())
    with torch.no_grad():
        for lag, lin in enumerate(full.lins):
            for part in range(4):
                for channel, length in enumerate(lengths):
                    if length <= lag:
                        lin.weight[part * K + channel] = 0
    x, ptr = normal(11, D), ptr_of(LENGTHS["ragged"])
    torch.testing.assert_close(model(x, ptr)[0], full(x, ptr)[0])


def test_strings_shorter_than_the_window_see_zeros() -> None:
    model, string = made("rkm_lstm", 4, 2), normal(2, D)
    out, _ = model(string, ptr_of([2]))
    padded = made("rkm_lstm", 1)
    padded.load_state_dict(
        {name: value for name, value in model.state_dict().items() if "lins." not in name}, False
    )
    padded.lins[0].load_state_dict(model.lins[0].state_dict())
    torch.testing.assert_close(out, padded(string, ptr_of([2]))[0])


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("dilation", [1, 2])
def test_sync_filters_are_filters(variant: str, dilation: int) -> None:
    """A machine of wavelets is the free one with their values for weights."""
    n = 5
    sync, free = made(variant, n, dilation, filters="sync"), made(variant, n, dilation)
    known = {name: value for name, value in sync.state_dict().items() if "syncs." not in name}
    free.load_state_dict(known, strict=False)
    weight = torch.cat([filters() for filters in sync.syncs])
    with torch.no_grad():
        for lag, lin in enumerate(free.lins):
            lin.weight.copy_(weight[:, :, n - 1 - lag])
    x, ptr = normal(11, D), ptr_of(LENGTHS["ragged"])
    state = None
    for _ in range(2):  # the second time with what came before
        found, expected = sync(x, ptr, state), free(x, ptr, state)
        for came, wanted in zip(flat(found), flat(expected), strict=True):
            torch.testing.assert_close(came, wanted)
        state = found[1]
