from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.integrate import quad

from wlkernelnn.kernels import ArcCosine, Composition, Exponential, Identity, Inverse, Polynomial
from wlkernelnn.kernels.composition import COMPOSITIONS, Series, get_composition

SERIES: dict[str, Series] = {
    "identity": Identity(),
    "square": Polynomial(),
    "cubic": Polynomial(3, 0.5),
    "inverse": Inverse(),
    "scaled_inverse": Inverse(2.5),
    "exp": Exponential(),
}


def points() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inner products and squared norms of vectors inside the unit ball, of which two are parallel."""
    x = np.random.default_rng(0).normal(size=(6, 2))
    x /= 1.1 * np.linalg.norm(x, axis=1).max()
    x[1] = -0.5 * x[0]
    squares = (x**2).sum(1)
    return x @ x.T, squares[:, None], squares[None]


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)
def test_series_are_their_coefficients(series: Series) -> None:
    k, kxx, kyy = points()
    terms = 60 if series.last is None else series.last + 1
    expected = sum(float(series.coefficient(a)) * k**a for a in range(terms))
    np.testing.assert_allclose(series(k, kxx, kyy), expected, rtol=1e-14)
    assert all(series.coefficient(a) >= 0 for a in range(terms + 5))
    if series.last is not None:
        assert series.coefficient(series.last) > 0
        assert not any(series.coefficient(a) for a in range(series.last + 1, terms + 5))


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_is_an_integral_over_directions(order: int) -> None:
    """2 E[Θ(w·x) Θ(w·y) (w·x)ⁿ (w·y)ⁿ] for normal w in the plane, by quadrature over its angle."""
    x, y = np.array([0.9, 0.3]), np.array([-0.2, 0.7])

    def integrand(angle: float) -> float:
        w = np.array([np.cos(angle), np.sin(angle)])
        a, b = w @ x, w @ y
        return (a > 0) * (b > 0) * (a * b) ** order / (2 * np.pi)

    radial = {0: 1.0, 1: 2.0}[order]  # E[r^2n] of a normal vector in the plane
    expected = 2 * radial * quad(integrand, 0, 2 * np.pi, limit=500)[0]
    arguments = (np.array([[x @ y]]), np.array([[x @ x]]), np.array([[y @ y]]))
    assert ArcCosine(order)(*arguments)[0, 0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("order", "value", "with_zero"), [(0, 1.0, 0.5), (1, 0.25, 0.0)], ids=["order 0", "order 1"]
)
def test_arc_cosine_of_a_vector_with_itself_and_with_0(order: int, value: float, with_zero: float) -> None:
    k = np.array([[0.25, 0.0], [0.0, 0.0]])
    came = ArcCosine(order)(k, np.diagonal(k)[:, None], np.diagonal(k)[None])
    np.testing.assert_allclose(came, [[value, with_zero], [with_zero, with_zero]], atol=1e-15)


@pytest.mark.parametrize(
    "composition", [*SERIES.values(), ArcCosine(0), ArcCosine(1)], ids=[*SERIES, "arccos0", "arccos1"]
)
def test_slopes(composition: Composition) -> None:
    """Of every argument, where vectors are not parallel (there order 0 has none)."""
    k, kxx, kyy = points()
    slopes = composition.slopes(k, kxx, kyy)
    step = 1e-6
    parallel = np.isclose(abs(k), np.sqrt(kxx * kyy))
    for which, slope in enumerate(slopes):
        shifts = [step * (which == i) for i in range(3)]
        up = composition(k + shifts[0], kxx + shifts[1], kyy + shifts[2])
        down = composition(k - shifts[0], kxx - shifts[1], kyy - shifts[2])
        difference = np.broadcast_to((up - down) / (2 * step), k.shape)
        np.testing.assert_allclose(
            np.broadcast_to(slope, k.shape)[~parallel], difference[~parallel], rtol=1e-4, atol=1e-7
        )


@pytest.mark.parametrize("order", [0, 1])
def test_slopes_of_parallel_vectors(order: int) -> None:
    """If x and y = x both grow, K_0 stays 1 and K_1 = |x|² grows with them."""
    one = np.ones((1, 1))
    by_k, by_kxx, by_kyy = ArcCosine(order).slopes(one, one, one)
    assert float((by_k + by_kxx + by_kyy)[0, 0]) == pytest.approx(order)


def test_inverse_needs_small_vectors() -> None:
    k = np.array([[1.5]])
    with pytest.raises(ValueError, match=r"the largest is 1.5, s is 1; use Inverse\(scale=1.5\)"):
        Inverse()(k, k, k)
    assert Inverse(1.5)(k, k, k) == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(0), "degree must be an integer of at least 1, got 0"),
        (lambda: Polynomial(1.5), "degree must be an integer of at least 1, got 1.5"),  # type: ignore[arg-type]
        (lambda: Polynomial(2, 0.0), "c > 0"),
        (lambda: Polynomial(2, np.nan), "constant must be a finite number, got nan"),
        (lambda: Inverse(0.0), "s > 0"),
        (lambda: Inverse(np.inf), "scale must be a finite number, got inf"),
        (lambda: ArcCosine(2), "order 0 and 1, got 2"),
        (
            lambda: get_composition("relu"),
            "one of identity, polynomial, inverse, exp, arccos0, arccos1, got 'relu'",
        ),
        (lambda: get_composition(["exp"]), r"arccos1, got \['exp'\]"),  # type: ignore[arg-type]
    ],
    ids=["degree", "fraction", "constant", "nan", "scale", "infinite", "order", "name", "list"],
)
def test_arguments_out_of_range(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_names() -> None:
    assert [get_composition(name) for name in COMPOSITIONS] == [
        *(Identity(), Polynomial(2, 1.0), Inverse(1.0), Exponential(), ArcCosine(0), ArcCosine(1))
    ]
    own = Polynomial(4)
    assert get_composition(own) is own
