"""Lemma 1: sigmoid-like activations lie in the space of 1 / (2 − k), and which do not."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from wlkernelnn.kernels import Exponential, Identity, Inverse, Polynomial
from wlkernelnn.testing import ACTIVATIONS, PowerSeries, norms, rkhs_norm
from wlkernelnn.testing.exact import exact
from wlkernelnn.testing.series import number, series_sum

mpmath = pytest.importorskip("mpmath")


@pytest.mark.parametrize("series", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_coefficients_are_those_of_the_function(series: PowerSeries) -> None:
    z = torch.linspace(-1, 1, 9, dtype=torch.float64)
    with mpmath.workdps(40):
        summed = [
            series_sum(lambda a: number(series.coefficient(a)), series.last, mpmath.mpf(v))
            for v in z.tolist()
        ]
        direct = [series.exact(mpmath.mpf(v)) for v in z.tolist()]
        assert max(abs(a - b) for a, b in zip(summed, direct, strict=True)) < 1e-35
    np.testing.assert_allclose(series(z).numpy(), np.array(summed, dtype=float), rtol=1e-14, atol=1e-15)


def test_series_that_do_not_come_to_rest() -> None:
    with pytest.raises(OverflowError, match="does not come to rest"):
        series_sum(lambda a: 1, None, mpmath.mpf(1))
    assert series_sum(lambda a: 1, None, mpmath.mpf("0.5")) == 2
    assert series_sum(lambda a: 1, 3, mpmath.mpf(2)) == 15


def test_norms() -> None:
    """Σ (s_a² / b_a) k^a, by hand."""
    assert norms(ACTIVATIONS["square"], Polynomial(2, 3.0))(mpmath.mpf(2)) == 4  # b_2 = 1
    assert norms(ACTIVATIONS["linear"], Polynomial(2, 3.0))(mpmath.mpf(2)) == pytest.approx(2 / 6)  # b_1 = 2c
    assert float(norms(ACTIVATIONS["exp"], Exponential())(mpmath.mpf(2))) == pytest.approx(np.exp(2))
    with pytest.raises(ValueError, match="quadratic has a term of degree 0, Identity"):
        norms(ACTIVATIONS["quadratic"], Identity())(mpmath.mpf(1))


def norm_on(sigma, w: float, points: int) -> float:
    """fᵀK⁺f of f(x) = σ(w x) at points of [−1, 1], K(x, y) = 1 / (2 − x y): at most f's squared norm."""
    x = exact(np.cos(np.pi * (np.arange(points) + 0.5) / points))
    kernel = 1 / (2 - np.outer(x, x))
    values = np.array([sigma(mpmath.mpf(w) * v) for v in x], dtype=object)
    return float(rkhs_norm(values, kernel)[0])


def logistic(z):
    return 1 / (1 + mpmath.exp(-z))


@pytest.mark.parametrize("w", [0.25, 0.5, 1.0, 4.0])
def test_lemma_1_of_an_entire_sigmoid(w: float) -> None:
    """erf: finite for every weight, approached from below as points are added."""
    with mpmath.workdps(150):
        bound = float(norms(ACTIVATIONS["erf"], Inverse())(mpmath.mpf(w) ** 2))
        few, some, many = (norm_on(mpmath.erf, w, points) for points in (4, 12, 40))
    assert few < some <= many <= bound * (1 + 1e-9)
    assert w == 4.0 or many == pytest.approx(bound, rel=1e-2)


def test_lemma_1_as_an_inner_product() -> None:
    """σ(⟨w, x⟩) = ⟨φ(x), ψ(w)⟩ in several dimensions: values at random points of the unit ball."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3))
    x /= 1.05 * np.linalg.norm(x, axis=1).max()
    w = rng.normal(size=3)
    with mpmath.workdps(150):
        points, weights = exact(x), exact(w)
        values = np.array([mpmath.erf(v) for v in points @ weights], dtype=object)
        norm, outside = rkhs_norm(values, 1 / (2 - points @ points.T))
        bound = norms(ACTIVATIONS["erf"], Inverse())(weights @ weights)
        assert norm <= bound
        assert outside <= bound


def test_the_logistic_function_leaves_the_space() -> None:
    """Where lemma 1 fails as it is printed ("sigmoid", any weights of finite norm).

    Functions of the space are analytic for |z| < √2 w; the logistic function has a pole at iπ. With w < π/√2
    its norm settles, with w > π/√2 the norm of its values grows without bound.
    """
    with mpmath.workdps(160):
        small = [norm_on(logistic, 1.5, points) for points in (10, 20, 40)]
        large = [norm_on(logistic, 4.0, points) for points in (10, 20, 40)]
    assert small[2] == pytest.approx(small[1], rel=1e-3)
    assert large[1] > 10 * large[0]
    assert large[2] > 100 * large[1]


def test_tanh_is_finite_up_to_its_radius() -> None:
    """‖w‖² < π²/8 for 1 / (2 − k)."""
    with mpmath.workdps(30):
        hat = norms(ACTIVATIONS["tanh"], Inverse())
        assert hat(mpmath.mpf("1.1")) < 100
        with pytest.raises(ValueError, match="tanh has no finite norm"):
            hat(mpmath.mpf("1.3"))


def test_only_exact_arithmetic_needs_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpmath", None)
    assert ACTIVATIONS["exp"](torch.zeros(1)) == 1
    with pytest.raises(ImportError, match=r"pip install 'wlkernelnn\[theorems\]'"):
        rkhs_norm(np.zeros(1), np.ones((1, 1)))
