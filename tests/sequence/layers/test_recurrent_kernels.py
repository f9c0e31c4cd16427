from __future__ import annotations

import numpy as np
import pytest
import torch

from wlkernelnn.kernels.composition import ArcCosine, Polynomial
from wlkernelnn.sequence.layers.recurrent_kernels import (
    RECURRENT_KERNELS,
    ArcCosineKernel,
    GaussianKernel,
    PolynomialKernel,
    RecurrentKernel,
    get_recurrent_kernel,
)

POINTS = torch.linspace(-1, 1, 41, dtype=torch.float64)
NAN = float("nan")
ALONE = (1.0, 0.0)  # σ_i² and σ_f²: no memory


@pytest.mark.parametrize("degree", [1, 2, 5])
@pytest.mark.parametrize("constant", [0.0, 0.3, 2.0])
def test_polynomial_is_that_of_the_graph_kernels_over_its_largest_value(degree: int, constant: float) -> None:
    came = PolynomialKernel(degree, constant)(POINTS, torch.zeros_like(POINTS), *ALONE)
    if constant:
        theirs = Polynomial(degree, constant)
        one = np.ones(1)
        expected = theirs(POINTS.numpy(), one, one) / theirs(one, one, one)
    else:
        expected = POINTS.numpy() ** degree
    np.testing.assert_allclose(came.numpy(), expected, atol=1e-14)


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_is_that_of_the_graph_kernels(order: int) -> None:
    came = ArcCosineKernel(order)(POINTS, torch.zeros_like(POINTS), *ALONE)
    one = np.ones(1)
    np.testing.assert_allclose(came.numpy(), ArcCosine(order)(POINTS.numpy(), one, one), atol=1e-7)


def test_gaussian_of_unit_vectors() -> None:
    x, y = torch.nn.functional.normalize(torch.randn(2, 9, 4, dtype=torch.float64), dim=-1)
    came = GaussianKernel()((x * y).sum(1), torch.ones(9).double(), 0.3, 0.8)
    torch.testing.assert_close(came, torch.exp(-(x - y).square().sum(1) / (2 * 0.3)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", RECURRENT_KERNELS)
def test_slopes_at_both_ends_are_numbers(name: str, dtype: torch.dtype) -> None:
    ends = torch.tensor([-1.0, 1.0], dtype=dtype, requires_grad=True)
    value = RECURRENT_KERNELS[name]()(ends, torch.zeros(2, dtype=dtype), 1.0, 1e-9)
    value.sum().backward()
    assert value.isfinite().all()
    assert ends.grad is not None
    assert ends.grad.isfinite().all()


@pytest.mark.parametrize("name", [name for name in RECURRENT_KERNELS if name != "tanh"])
def test_kernels_are_positive_semidefinite(name: str) -> None:
    """Two steps, between strings of unit vectors in the plane (tanh is no Mercer kernel)."""
    kernel = RECURRENT_KERNELS[name]()
    angles = torch.rand(2, 60, dtype=torch.float64) * 7
    x = torch.stack([angles.cos(), angles.sin()], -1)
    gram = torch.zeros(60, 60, dtype=torch.float64)
    for step in range(2):
        # Gaussian: with nothing before, the memories are alike.
        memory = torch.ones_like(gram) if step == 0 and name == "gaussian" else gram
        gram = kernel((x[step] @ x[step].t()).clamp(-1, 1), memory, 0.4, 0.6)
    assert torch.linalg.eigvalsh(gram).min() > -1e-6


def test_tanh_is_not_a_mercer_kernel() -> None:
    x = torch.linspace(-3, 3, 30, dtype=torch.float64)
    gram = RECURRENT_KERNELS["tanh"]()(torch.outer(x, x), torch.zeros(30, 30).double(), *ALONE)
    assert torch.linalg.eigvalsh(gram).min() < -0.1


@pytest.mark.parametrize(
    ("name", "sigmas", "expected"),
    [
        ("linear", (1.0, 1.0), "σ_f² < 1"),
        ("linear", (-0.1, 0.5), "σ_i² ≥ 0"),
        ("polynomial", (0.6, 0.5), r"σ_i² \+ σ_f² ≤ 1"),
        ("arccos1", (-0.5, 0.5), "σ_i², σ_f² ≥ 0"),
        ("gaussian", (0.5, 0.0), "σ_i², σ_f² > 0"),
        ("tanh", (0.5, -1.0), "σ_i², σ_f² ≥ 0"),
        *((name, sigmas, "σ") for name in RECURRENT_KERNELS for sigmas in ((NAN, 0.5), (0.5, NAN))),
    ],
)
def test_sigmas_that_diverge(name: str, sigmas: tuple[float, float], expected: str) -> None:
    with pytest.raises(ValueError, match=rf"Kernel needs .*{expected}.* got sigma_i2="):
        RECURRENT_KERNELS[name]().check(*sigmas)


def test_names_and_arguments() -> None:
    own: RecurrentKernel = PolynomialKernel(3)
    assert get_recurrent_kernel(own) is own
    assert get_recurrent_kernel("arccos0") == ArcCosineKernel(0)
    with pytest.raises(ValueError, match=r"kernel must be .* got 'rbf'"):
        get_recurrent_kernel("rbf")
    for degree in (0, 1.5):  # of a negative number, 1.5 gives none
        with pytest.raises(ValueError, match=rf"degree must be an integer of at least 1, got {degree}"):
            PolynomialKernel(degree, 0.2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="constant must be a finite number, got nan"):
        PolynomialKernel(2, NAN)
    with pytest.raises(ValueError, match=r"constant must be at least 0, got -0\.5"):
        PolynomialKernel(2, -0.5)
    with pytest.raises(ValueError, match="order 0 and 1, got 2"):
        ArcCosineKernel(2)
