"""The deep string kernel against its recursion, written out with every subsequence of every prefix."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor

from tests.checks.pairwise import pairwise
from wlkernelnn.kernels.composition import ArcCosine, Composition, Inverse, Polynomial, get_composition
from wlkernelnn.kernels.strings.deep_string import DeepStringKernel
from wlkernelnn.kernels.strings.string import StringKernel
from wlkernelnn.sequence import StringKernelConv, path_graph

RNG = np.random.default_rng(0)
WORDS = ["abcab", "", "b", "ca", "bcab", "ab"]
VECTORS = [0.6 * RNG.normal(size=(length, 2)) for length in (4, 0, 1, 5, 3)]
COMPOSITIONS = ["identity", Polynomial(3, 0.5), Inverse(1e4), "exp", "arccos0", "arccos1"]


def content(x: Any) -> Any:
    return x.tobytes() if isinstance(x, np.ndarray) else x if isinstance(x, str) else tuple(x)


class Recursion:
    """K^(l) and K_σ^(l) of two strings, straight from section 2.2 and Table 4."""

    def __init__(
        self,
        composition: str | Composition,
        ngram: int,
        decay: float,
        compose: str = "mul",
        averaged: bool = False,
        readout: str = "last",
    ) -> None:
        self.composition = get_composition(composition)
        self.lengths = range(1, ngram + 1) if readout == "sum" else [ngram]
        self.decay = decay
        self.level = {"mul": self.products, "add": self.sums}[compose]
        self.step = 1 - decay if averaged else 1
        self.known: dict[tuple[int, Any, Any], float] = {}
        self.composed: dict[tuple[int, Any, Any], float] = {}

    def pre(self, layer: int, x: Any, y: Any) -> float:
        key = layer, content(x), content(y)
        if key not in self.known:
            self.known[key] = self.sum(layer, x, y)
        return self.known[key]

    def sum(self, layer: int, x: Any, y: Any) -> float:
        return sum(self.level(layer, x, y, n) for n in self.lengths)

    def products(self, layer: int, x: Any, y: Any, n: int) -> float:
        """(a), and (b) by its closed form."""
        total = 0.0
        for places in combinations(range(1, len(x) + 1), n):
            for others in combinations(range(1, len(y) + 1), n):
                term = self.decay ** (len(x) - places[0] - n + 1)
                term *= self.decay ** (len(y) - others[0] - n + 1)
                for i, k in zip(places, others, strict=True):
                    term *= self.post(layer - 1, x[:i], y[:k])
                total += term
        return self.step ** (2 * n) * total

    def sums(self, layer: int, x: Any, y: Any, n: int) -> float:
        """(c) by its closed form: a token is added p levels below the last one."""
        total = 0.0
        for p, (i, k) in product(range(n), product(range(1, len(x) + 1), range(1, len(y) + 1))):
            term = self.step ** (2 * p + 2) * self.post(layer - 1, x[:i], y[:k])
            for behind in (len(x) - i, len(y) - k):
                term *= comb(behind, p) * self.decay ** max(behind - p, 0)
            total += term
        return total

    def post(self, layer: int, x: Any, y: Any) -> float:
        if layer == 0:
            return float(x[-1] @ y[-1]) if isinstance(x, np.ndarray) else float(x[-1] == y[-1])
        key = layer, content(x), content(y)
        if key not in self.composed:
            k = [np.array(self.pre(layer, *pair)) for pair in ((x, y), (x, x), (y, y))]
            self.composed[key] = float(self.composition(*k))
        return self.composed[key]


def close(found: Any, expected: Any, composition: str | Composition) -> None:
    # The angle of two equal vectors is the arccos of 1, where rounding costs half of the digits.
    tolerance = 1e-6 if isinstance(composition, str) and composition.startswith("arccos") else 1e-10
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.halved
@pairwise(composition=COMPOSITIONS, shape=[(1, 2), (2, 1), (2, 2)], decay=[0, 0.4])
def test_equals_recursion(composition: str | Composition, shape: tuple[int, int], decay: float) -> None:
    num_layers, ngram = shape
    kernel = DeepStringKernel(num_layers, ngram, decay, composition)
    recursion = Recursion(composition, ngram, decay)
    for X in (WORDS, VECTORS):
        expected = np.array([[recursion.post(num_layers, x, y) for y in X[:4]] for x in X])
        close(kernel(X, X[:4]), expected, composition)
        close(kernel(X)[:, :4], expected, composition)
        close(kernel.diag(X)[:4], np.diag(expected), composition)


TABLE_4: dict[str, dict[str, Any]] = {
    "b": {"averaged": True},
    "c": {"compose": "add", "averaged": True},
    "sums": {"compose": "add"},
    "a-all": {"readout": "sum"},
    "b-all": {"averaged": True, "readout": "sum"},
    "c-all": {"compose": "add", "averaged": True, "readout": "sum"},
}
VARIANTS = pytest.mark.parametrize("options", TABLE_4.values(), ids=TABLE_4)


@pytest.mark.halved
@pairwise(
    options=TABLE_4,
    composition=["identity", "polynomial", "arccos1"],
    shape=[(1, 3), (2, 1), (2, 2)],
    decay=[0, 0.4, 1],
)
def test_networks_of_table_4(
    options: dict[str, Any], composition: str, shape: tuple[int, int], decay: float
) -> None:
    num_layers, ngram = shape
    kernel = DeepStringKernel(num_layers, ngram, decay, composition, **options)
    recursion = Recursion(composition, ngram, decay, **options)
    for X in (WORDS, VECTORS):
        expected = np.array([[recursion.post(num_layers, x, y) for y in X[:4]] for x in X])
        close(kernel(X, X[:4]), expected, composition)
        close(kernel(X)[:, :4], expected, composition)
        close(kernel.diag(X)[:4], np.diag(expected), composition)
    x, y = VECTORS[0], VECTORS[4]
    expected = [[recursion.pre(num_layers, x[: t + 1], y[: s + 1]) for s in range(3)] for t in range(4)]
    close(kernel.local(x, y), expected, composition)


@VARIANTS
def test_one_layer_is_the_product_of_its_networks_features(options: dict[str, Any]) -> None:
    """Of a layer without activation whose filters are all basis vectors, K is the inner product of states.

    With products every combination of basis vectors is a filter; with sums one basis vector at one place.
    """
    n, width, (x, y) = 2, 2, (VECTORS[0], VECTORS[3])
    places: Any = product(np.eye(width), repeat=n)
    if options.get("compose") == "add":
        places = [
            [one if j == place else np.zeros(width) for j in range(n)]
            for place, one in product(range(n), np.eye(width))
        ]
    filters = np.array(list(places))  # [K, n, width]
    readouts = ["last"] if options.get("readout") != "sum" else ["c_1", "last"]
    total = 0.0
    for readout in readouts:
        used = filters if readout == "last" else np.eye(width)[:, None]
        layer = StringKernelConv(
            width,
            len(used),
            used.shape[1],
            0.4,
            compose=options.get("compose", "mul"),
            normalize=options.get("averaged", False),
        ).double()
        with torch.no_grad():
            for j, lin in enumerate(layer.lins):
                lin.weight.copy_(torch.as_tensor(used[:, j]))
        states = [layer(torch.as_tensor(string)[None])[0][0, -1] for string in (x, y)]
        total += float((states[0] @ states[1]).detach())
    found = DeepStringKernel(1, n, 0.4, "identity", **options)([x], [y]).item()
    assert found == pytest.approx(total, rel=1e-12)


def test_averages_need_a_decay_of_at_most_1() -> None:
    with pytest.raises(ValueError, match=r"averaged=True needs decay ≤ 1, got 1.5"):
        DeepStringKernel(decay=1.5, averaged=True)(WORDS)
    for name in ("compose", "readout"):
        with pytest.raises(ValueError, match=f"{name} must be one of"):
            DeepStringKernel(**{name: "other"})(WORDS)


def test_three_layers() -> None:
    recursion = Recursion("polynomial", 2, 0.3)
    x, y = "abab", "bab"
    kernel = DeepStringKernel(3, 2, 0.3)
    np.testing.assert_allclose(kernel([x], [y]).item(), recursion.post(3, x, y), rtol=1e-12)


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    X=st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=3),
    Y=st.lists(st.lists(st.integers(0, 2), max_size=4), min_size=1, max_size=3),
    ngram=st.integers(1, 3),
    decay=st.floats(0, 1.2),
)
def test_equals_recursion_of_any(X: list[list[int]], Y: list[list[int]], ngram: int, decay: float) -> None:
    recursion = Recursion("arccos1", ngram, decay)
    expected = [[recursion.post(2, x, y) for y in Y] for x in X]
    found = DeepStringKernel(2, ngram, decay, "arccos1")(X, Y)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("ngram", "decay"), [(1, 0), (3, 0.5), (3, 1)])
def test_one_layer_without_activation_is_the_string_kernel(ngram: int, decay: float) -> None:
    deep, plain = DeepStringKernel(1, ngram, decay, "identity"), StringKernel(ngram, decay, "a")
    for X in (WORDS, VECTORS):
        values, slopes = deep(X, eval_gradient=True)
        expected, expected_slopes = plain(X, eval_gradient=True)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-12, atol=1e-13)


def test_local_before_the_activation() -> None:
    recursion = Recursion("exp", 2, 0.4)
    kernel = DeepStringKernel(2, 2, 0.4, "exp")
    x, y = VECTORS[0], VECTORS[4]
    for layer in (1, 2):
        expected = [[recursion.pre(layer, x[: t + 1], y[: s + 1]) for s in range(3)] for t in range(4)]
        np.testing.assert_allclose(kernel.local(x, y, layer), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(kernel.local(x, y), kernel.local(x, y, 2))
    assert kernel.local("", "abc").shape == (0, 3)
    for layer in (0, 3):
        with pytest.raises(ValueError, match="layer must be in 1 … 2"):
            kernel.local(x, y, layer)


@pytest.mark.parametrize(("composition", "normalize"), [("polynomial", True), ("arccos1", False)])
def test_blocks(composition: str, normalize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = DeepStringKernel(2, 2, 0.5, composition, normalize)
    whole, slopes = kernel(VECTORS, eval_gradient=True)
    rectangle, diag = kernel(VECTORS, VECTORS[2:]), kernel.diag(VECTORS)
    for budget in (1, 5):
        monkeypatch.setattr(DeepStringKernel, "_budget", budget)
        monkeypatch.setattr(DeepStringKernel, "_diag_budget", budget)
        found, found_slopes = kernel(VECTORS, eval_gradient=True)
        close(found, whole, composition)
        close(found_slopes, slopes, composition)
        close(kernel(VECTORS, VECTORS[2:]), rectangle, composition)
        close(kernel.diag(VECTORS), diag, composition)


@pytest.mark.parametrize("composition", COMPOSITIONS, ids=str)
def test_psd(composition: str | Composition) -> None:
    words = ["".join(RNG.choice(list("abc"), length)) for length in RNG.integers(0, 6, size=15)]
    values = DeepStringKernel(2, 2, 0.4, composition)(words)
    close(values, values.T, composition)
    eigenvalues = np.linalg.eigvalsh(values)
    assert eigenvalues[0] > -1e-7 * eigenvalues[-1]


@pytest.mark.parametrize(
    ("composition", "normalize"),
    [*zip([*COMPOSITIONS[:4], "arccos1"], [False, True, False, True, True], strict=True)],
    ids=str,
)
def test_gradient(composition: str | Composition, normalize: bool) -> None:
    step = 1e-5
    for X in (WORDS, VECTORS):
        kernel = DeepStringKernel(2, 2, 0.4, composition, normalize)
        values, slopes = kernel(X, eval_gradient=True)
        np.testing.assert_allclose(values, kernel(X), rtol=1e-14)
        more, less = (
            DeepStringKernel(2, 2, 0.4 * np.exp(sign * step), composition, normalize)(X) for sign in (1, -1)
        )
        scale = np.abs(slopes).max()
        assert scale > 0
        np.testing.assert_allclose(
            slopes[..., 0] / scale, (more - less) / (2 * step * scale), rtol=1e-5, atol=1e-5
        )


@VARIANTS
def test_gradient_of_table_4(options: dict[str, Any]) -> None:
    step = 1e-5
    _, slopes = DeepStringKernel(2, 3, 0.4, **options)(VECTORS, eval_gradient=True)
    more, less = (DeepStringKernel(2, 3, 0.4 * np.exp(sign * step), **options)(VECTORS) for sign in (1, -1))
    assert np.abs(slopes).max() > 0
    np.testing.assert_allclose(slopes[..., 0], (more - less) / (2 * step), rtol=1e-5, atol=1e-6)


def test_gradient_of_steps() -> None:
    # Away from parallel vectors, where the slope of the angle has no bound.
    step = 1e-5
    kernel = DeepStringKernel(2, 2, 0.4, ArcCosine(0))
    _, slopes = kernel(VECTORS, eval_gradient=True)
    more, less = (
        DeepStringKernel(2, 2, 0.4 * np.exp(sign * step), ArcCosine(0))(VECTORS) for sign in (1, -1)
    )
    off = ~np.eye(len(VECTORS), dtype=bool)
    assert np.abs(slopes[off]).max() > 1e-3
    np.testing.assert_allclose(slopes[off][:, 0], ((more - less) / (2 * step))[off], rtol=1e-4, atol=1e-6)


def test_gaussian_process() -> None:
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abc"), length)) for length in rng.integers(2, 8, size=40)]
    values = DeepStringKernel(2, 2, 0.4, normalize=True)(words) + 0.01 * np.eye(len(words))
    y = np.linalg.cholesky(values) @ rng.normal(size=len(words))
    kernel = DeepStringKernel(2, 2, 0.8, normalize=True)
    model = GaussianProcessRegressor(kernel, alpha=0.01).fit(words, y)
    assert 0.2 < model.kernel_.decay < 0.7
    assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(kernel.theta)


def test_protocol() -> None:
    kernel = DeepStringKernel(3, 2, 0.2, Polynomial(2, 0.5), True, "fixed")
    assert clone(kernel).get_params() == kernel.get_params()
    assert repr(kernel).startswith(
        "DeepStringKernel(num_layers=3, ngram=2, decay=0.2, composition=Polynomial("
    )
    assert kernel(WORDS, []).shape == (len(WORDS), 0)
    assert kernel([]).shape == (0, 0)
    # Without a subsequence, only the constant of (c + k)^p is left.
    np.testing.assert_allclose(DeepStringKernel()(["", "a"]), np.ones((2, 2)))


def test_batches_of_path_graphs() -> None:
    strings = [torch.randn(length, 2, dtype=torch.float64) for length in (4, 2)]
    kernel = DeepStringKernel()
    np.testing.assert_array_equal(kernel(path_graph(strings)), kernel([item.numpy() for item in strings]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ngram": 0}, "ngram must be an integer of at least 1, got 0"),
        ({"composition": "relu"}, "composition must be"),
        ({"composition": "inverse"}, r"needs k\(x, x\) ≤ s everywhere"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeepStringKernel(**arguments)(WORDS)


def test_steps_of_equal_strings() -> None:
    """An angle of 1e-8, by rounding, would be one of 1e-4 a layer later, and of 1e-2 then."""
    rng = np.random.default_rng(0)
    strings = [rng.normal(size=(5, 3)) for _ in range(4)]
    kernel = DeepStringKernel(3, 2, 0.5, "arccos0")
    np.testing.assert_allclose(np.diag(kernel(strings)), kernel.diag(strings), rtol=1e-12)
    normalized = DeepStringKernel(3, 2, 0.5, "arccos0", normalize=True)(strings, strings[:2] + strings[:2])
    np.testing.assert_allclose(np.diag(normalized[:2, 2:]), 1.0, rtol=1e-12)
