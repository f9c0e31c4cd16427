"""The machine against the kernels it computes, step by step, unrolled and as inner products."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal
from wlkernelnn.sequence import RecurrentKernelMachine
from wlkernelnn.sequence.layers.recurrent_kernels import RECURRENT_KERNELS, PolynomialKernel
from wlkernelnn.sequence.layers.rkm import RKM

D, K = 3, 4
SIGMAS = {"sigma_i2": 0.3, "sigma_f2": 0.6}
KERNELS = pytest.mark.parametrize("kernel", RECURRENT_KERNELS)


def made(kernel: Any, **options: Any) -> RecurrentKernelMachine:
    machine = RecurrentKernelMachine(D, K, kernel, **SIGMAS | options)
    randomize(machine)
    return machine


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True)


@KERNELS
def test_recursion_is_the_kernel_of_equation_5_unrolled(kernel: str) -> None:
    """q[σ_i² x̃ᵀx_4 + σ_f² q[σ_i² x̃ᵀx_3 + σ_f² q[…]]]; Gaussian with its own q."""
    machine, string = made(kernel), normal(4, D)
    x, filters = string, machine.lins[0].weight
    if machine.kernel.unit:
        x, filters = unit(x), unit(filters)
    p = x @ filters.t()

    def q(new: Tensor, memory: Tensor) -> Tensor:
        if kernel == "gaussian":
            return torch.exp((new - 1) / 0.3 + (memory - 1) / 0.6)
        c = 0.3 * new + 0.6 * memory
        angle = torch.arccos(c.clamp(-1, 1))
        return {
            "linear": lambda: c,
            "polynomial": lambda: ((1 + c) / 2) ** 2,
            "arccos0": lambda: 1 - angle / torch.pi,
            "arccos1": lambda: (angle.sin() + (torch.pi - angle) * angle.cos()) / torch.pi,
            "tanh": lambda: c.tanh(),
        }[kernel]()

    nothing = torch.zeros(K).double()
    expected = q(p[3], q(p[2], q(p[1], q(p[0], nothing))))
    torch.testing.assert_close(machine(string.unsqueeze(0))[0][0, 3], expected)


@pytest.mark.parametrize("degree", [1, 2])
def test_outputs_are_inner_products_of_hidden_vectors(degree: int) -> None:
    """h' is h̃ᵀh for h_t = φ([σ_i x_t, σ_f h_{t−1}]) with the features φ of the polynomial kernel.

    The filter's own string is x̃, x̃, …, its hidden vectors follow the same recursion.
    """
    machine, string = made(PolynomialKernel(degree, 0.5)), normal(3, D)

    def hidden(tokens: Tensor) -> Tensor:
        h = torch.zeros(0).double()
        for token in tokens:
            z = torch.cat([torch.tensor([0.5**0.5]), 0.3**0.5 * token, 0.6**0.5 * h]) / 1.5**0.5
            h = z if degree == 1 else torch.outer(z, z).flatten()
        return h

    out, _ = machine(string.unsqueeze(0))
    of_string = hidden(unit(string))
    for i, filter_ in enumerate(unit(machine.lins[0].weight)):
        torch.testing.assert_close(out[0, 2, i], hidden(filter_.expand(3, D)) @ of_string)


@KERNELS
@pytest.mark.parametrize("ngram", [1, 3])
@pytest.mark.parametrize("feedback", [False, True], ids=["open", "feedback"])
def test_equations(kernel: str, ngram: int, feedback: bool) -> None:
    """Equation (17), token by token; windows and filters of length 1 where the kernel wants them."""
    machine = made(kernel, ngram=ngram, feedback=feedback)
    strings = [normal(length, D) for length in (3, 0, 1, 4)]
    filters = torch.cat([lin.weight for lin in machine.lins], 1)
    if machine.feedback is not None:
        filters = torch.cat([filters, machine.feedback.weight], 1)
    expected = []
    for string in strings:
        h, padded = torch.zeros(K).double(), torch.cat([torch.zeros(ngram - 1, D).double(), string])
        for t in range(len(string)):
            z = torch.cat([padded[t : t + ngram].flip(0).flatten(), *([h] if feedback else [])])
            new = unit(filters) @ unit(z) if machine.kernel.unit else filters @ z
            h = machine.kernel(new, h, 0.3, 0.6)
            expected.append(h)
    torch.testing.assert_close(machine(*end_to_end(strings))[0], torch.stack(expected))


@KERNELS
def test_bounded_over_many_steps(kernel: str) -> None:
    """Also where every token is the filter itself, with σ_i² + σ_f² = 1."""
    sigmas = {"sigma_i2": 0.5, "sigma_f2": 0.5}
    machine = made(kernel, **sigmas)
    token = machine.lins[0].weight[0]
    for string in (normal(250, D), token.expand(250, D), -token.expand(250, D)):
        out, _ = machine(string.unsqueeze(0))
        products = (string @ machine.lins[0].weight.t()).abs().max()
        assert out.abs().max() <= (products if kernel == "linear" else 1) + 1e-9
    if machine.kernel.unit:
        machine = made(kernel, ngram=2, feedback=True, **sigmas)
        out, _ = machine(10 * normal(1, 250, D))
        assert out.abs().max() <= 1 + 1e-9


@pytest.mark.halved
@KERNELS
@pytest.mark.parametrize("feedback", [False, True], ids=["open", "feedback"])
def test_gradients_are_those_of_differences(kernel: str, feedback: bool) -> None:
    machine, x = made(kernel, ngram=2, feedback=feedback), normal(2, 3, D).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, *weights: machine(x)[0], (x, *machine.parameters()))


@KERNELS
def test_tokens_that_are_zero(kernel: str) -> None:
    machine, x = made(kernel, feedback=True), torch.zeros(1, 3, D).double().requires_grad_()
    out, _ = machine(x)
    out.sum().backward()
    assert out.isfinite().all()
    assert x.grad is not None
    # A direction that is not there has no gradient, not that of 1e-12 instead of its length.
    assert x.grad.abs().max() < 1e3


@KERNELS
def test_second_derivatives_beside_tokens_that_are_zero(kernel: str) -> None:
    machine, x = made(kernel, ngram=2), normal(2, 4, D)
    x[0, 1:3] = 0
    x.requires_grad_()
    (first,) = torch.autograd.grad(machine(x)[0].square().sum(), x, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("ngram", [1, 3])
def test_linear_machine_is_the_linear_variant_of_rkm(ngram: int) -> None:
    """Its h' is that one's c, which shows itself through tanh."""
    machine = made("linear", ngram=ngram)
    rkm = RKM(D, K, "linear", ngram, layer_norm=False, feedback=False, **SIGMAS).double()
    with torch.no_grad():
        for ours, theirs in zip(machine.lins, rkm.lins, strict=True):
            theirs.weight.copy_(ours.weight)
    x, ptr = end_to_end([normal(length, D) for length in (3, 0, 1, 4)])
    out, state = machine(x, ptr)
    expected, after = rkm(x, ptr)
    torch.testing.assert_close(out.tanh(), expected)
    torch.testing.assert_close(state if ngram == 1 else state[0], after[0])


def test_state() -> None:
    """h' alone, or with the last tokens."""
    x = normal(2, 4, D)
    out, h = made("gaussian")(x)
    assert torch.equal(h, out[:, -1])
    out, (h, tokens) = made("gaussian", ngram=3)(x)
    assert torch.equal(h, out[:, -1])
    assert torch.equal(tokens, torch.stack([x[:, 2], x[:, 3]]))


def test_bad_arguments() -> None:
    for options, message in (
        ({"in_channels": 0}, "in_channels must be an integer of at least 1"),
        ({"out_channels": 0}, "out_channels must be an integer of at least 1, got 0"),
        ({"ngram": 0}, "ngram must be an integer of at least 1, got 0"),
        ({"ngram": 2.0}, r"ngram must be an integer of at least 1, got 2\.0"),
        ({"sigma_i2": float("nan")}, "sigma_i2 must be a finite number, got nan"),
        ({"sigma_f2": "learned"}, "sigma_f2 must be a finite number, got 'learned'"),
        ({"kernel": "exp"}, "kernel must be .* got 'exp'"),
        ({"kernel": "polynomial", "sigma_i2": 0.7}, "PolynomialKernel needs .* got sigma_i2=0.7"),
    ):
        with pytest.raises(ValueError, match=message):
            RecurrentKernelMachine(**{"in_channels": D, "out_channels": K} | options)
    machine, x = made("linear", ngram=2), normal(1, 2, D)
    with pytest.raises(ValueError, match=r"a state of 2 parts \(h, x\), got 3 parts"):
        machine(x, state=(normal(1, K), normal(1, 1, D), normal(1, 1, D)))
    with pytest.raises(ValueError, match=rf"a state of shape \[1, 1, {D}\], got \[1, 1, {K}\]"):
        machine(x, state=(normal(1, K), normal(1, 1, K)))


@pytest.mark.parametrize("kernel", [name for name in RECURRENT_KERNELS if name != "linear"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_tokens_of_length_0(kernel: str, dtype: torch.dtype) -> None:
    """In float16, where 1e-12 is 0, too: they are at right angles to every filter."""
    machine = RecurrentKernelMachine(D, K, kernel).to(dtype)
    out, _ = machine(torch.zeros(1, 2, D, dtype=dtype))
    expected, _ = machine.double()(torch.zeros(1, 2, D, dtype=torch.float64))
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-2)
