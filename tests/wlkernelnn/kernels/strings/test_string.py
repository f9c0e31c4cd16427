"""The string kernel against the enumeration of all subsequences, and as a kernel of scikit-learn."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.svm import SVC

from tests.checks.pairwise import pairwise
from wlkernelnn.kernels.base import objects
from wlkernelnn.kernels.graphs.random_walk import RandomWalkKernel
from wlkernelnn.kernels.strings.string import StringKernel
from wlkernelnn.sequence import path_graph

VARIANTS = ["a", "b", "c", "lodhi"]
RNG = np.random.default_rng(0)
WORDS = ["abcab", "", "b", "ca", "bcacba", "abc"]
OTHERS = ["acb", "ddab", "", "a"]
VECTORS = [RNG.normal(size=(length, 2)) for length in (4, 0, 1, 6, 3)]
OTHER_VECTORS = [RNG.normal(size=(length, 2)) for length in (5, 0, 2)]


def similarity(x: Any, y: Any) -> float:
    return float(x @ y) if isinstance(x, np.ndarray) else float(x == y)


def weight(places: tuple[int, ...], length: int, decay: float, variant: str) -> float:
    """λ of one subsequence; places count from 0."""
    if variant == "lodhi":
        return decay ** (places[-1] - places[0] + 1)
    return decay ** (length - places[0] - len(places))


def enumerated(x: Any, y: Any, ngram: int, decay: float, variant: str) -> float:
    """Every pair of subsequences, one by one."""
    total = norm_x = norm_y = 0.0
    for places in combinations(range(len(x)), ngram):
        norm_x += weight(places, len(x), decay, variant)
        for others in combinations(range(len(y)), ngram):
            scores = [similarity(x[i], y[k]) for i, k in zip(places, others, strict=True)]
            total += (
                weight(places, len(x), decay, variant)
                * weight(others, len(y), decay, variant)
                * (sum(scores) if variant == "c" else np.prod(scores))
            )
    for others in combinations(range(len(y)), ngram):
        norm_y += weight(others, len(y), decay, variant)
    if variant in ("b", "c"):
        return total / (norm_x * norm_y) if norm_x * norm_y else 0.0
    return total


def gram(X: Any, Y: Any, ngram: int, decay: float, variant: str) -> np.ndarray:
    return np.array([[enumerated(x, y, ngram, decay, variant) for y in Y] for x in X])


@pairwise(variant=VARIANTS, ngram=[1, 2, 3], decay=[0, 0.3, 1.5])
def test_equals_enumeration(variant: str, ngram: int, decay: float) -> None:
    kernel = StringKernel(ngram, decay, variant)
    cases = [
        (WORDS, OTHERS, WORDS, OTHERS),
        ([list(word) for word in WORDS], [tuple(word) for word in OTHERS], WORDS, OTHERS),
        (VECTORS, OTHER_VECTORS, VECTORS, OTHER_VECTORS),
    ]
    for X, Y, plain_X, plain_Y in cases:
        expected = gram(plain_X, plain_Y, ngram, decay, variant)
        np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-11, atol=1e-12)
        own = gram(plain_X, plain_X, ngram, decay, variant)
        np.testing.assert_allclose(kernel(X), own, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(kernel.diag(X), np.diag(own), rtol=1e-11, atol=1e-12)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    X=st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=4),
    Y=st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=4),
    ngram=st.integers(1, 4),
    decay=st.floats(0, 1.2),
    variant=st.sampled_from(VARIANTS),
)
def test_equals_enumeration_of_any(
    X: list[list[int]], Y: list[list[int]], ngram: int, decay: float, variant: str
) -> None:
    kernel = StringKernel(ngram, decay, variant)
    expected = gram(X, Y, ngram, decay, variant)
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-11, atol=1e-280)


@pytest.mark.parametrize(("variant", "normalize"), [*zip(VARIANTS, [False, True] * 2, strict=True)])
def test_blocks(variant: str, normalize: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = StringKernel(2, 0.6, variant, normalize)
    X = [*VECTORS, *OTHER_VECTORS]
    whole, slopes = kernel(X, eval_gradient=True)
    rectangle, diag = kernel(X, VECTORS), kernel.diag(X)
    for budget in (1, 5):
        monkeypatch.setattr(StringKernel, "_budget", budget)
        monkeypatch.setattr(StringKernel, "_diag_budget", budget)
        found, found_slopes = kernel(X, eval_gradient=True)
        np.testing.assert_allclose(found, whole, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found_slopes, slopes, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(kernel(X, VECTORS), rectangle, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(kernel.diag(X), diag, rtol=1e-11, atol=1e-13)


def test_a_small_decay_keeps_its_digits() -> None:
    decay = 1e-13
    for variant in VARIANTS:
        found = StringKernel(3, decay, variant)(["abcab"], ["bcaab"])
        expected = enumerated("abcab", "bcaab", 3, decay, variant)
        np.testing.assert_allclose(found.item(), expected, rtol=1e-13)
        assert expected > 0


def test_example_of_lodhi() -> None:
    decay = 0.7
    kernel = StringKernel(2, decay, "lodhi")
    own, shared = 2 * decay**4 + decay**6, decay**4
    np.testing.assert_allclose(kernel(["cat", "car"]), [[own, shared], [shared, own]])
    kernel = StringKernel(2, decay, "lodhi", normalize=True)
    np.testing.assert_allclose(kernel(["cat"], ["car"]), 1 / (2 + decay**2))


def test_sentences_of_lodhi() -> None:
    # Printed in the paper for n = 2 … 6, the last one as 0.370. (For n = 1 it repeats the value of n = 2.)
    published = [0.580, 0.478, 0.439, 0.406, 0.369]
    sentences = ["science is organized knowledge"], ["wisdom is organized life"]
    for ngram, value in enumerate(published, start=2):
        found = StringKernel(ngram, 0.5, "lodhi", normalize=True)(*sentences)
        np.testing.assert_allclose(found, value, atol=6e-4)


@pytest.mark.parametrize(("variant", "ngram"), [*zip(VARIANTS, [2, 3, 1, 2], strict=True)])
def test_psd(variant: str, ngram: int) -> None:
    words = ["".join(RNG.choice(list("abc"), length)) for length in RNG.integers(0, 12, size=25)]
    for X in (words, [RNG.normal(size=(len(word), 3)) for word in words]):
        kernel = StringKernel(ngram, 0.6, variant)
        values = kernel(X)
        np.testing.assert_allclose(values, values.T, rtol=1e-12, atol=1e-12)
        eigenvalues = np.linalg.eigvalsh(values)
        assert eigenvalues[0] > -1e-12 * eigenvalues[-1]
        normalized = clone(kernel).set_params(normalize=True)(X)
        scale = np.sqrt(np.diag(values))
        full = scale > 0
        np.testing.assert_allclose(
            normalized[np.ix_(full, full)],
            (values / np.outer(scale + ~full, scale + ~full))[np.ix_(full, full)],
        )
        assert not normalized[~full].any()


@pairwise(variant=VARIANTS, ngram=[1, 3], normalize=[False, True])
def test_gradient(variant: str, ngram: int, normalize: bool) -> None:
    step = 1e-5
    for X in (WORDS, VECTORS):
        values, slopes = StringKernel(ngram, 0.4, variant, normalize)(X, eval_gradient=True)
        np.testing.assert_array_equal(values, StringKernel(ngram, 0.4, variant, normalize)(X))
        more, less = (
            StringKernel(ngram, 0.4 * np.exp(sign * step), variant, normalize)(X) for sign in (1, -1)
        )
        assert slopes.shape == (len(X), len(X), 1)
        np.testing.assert_allclose(slopes[..., 0], (more - less) / (2 * step), rtol=1e-7, atol=1e-9)


def test_gradient_is_exact() -> None:
    # All that the two words share is "at", with nothing behind it, and "ct" with gap 1: λ⁴ (1 + λ²) in
    # Lodhi's kernel, and 1 + λ (for "ct") + λ (for "ca") counted on each side in variant a.
    decay = 0.3
    _, slopes = StringKernel(2, decay, "lodhi")(["cat"], eval_gradient=True)
    np.testing.assert_allclose(slopes.item(), 8 * decay**4 + 6 * decay**6, rtol=1e-14)
    values, slopes = StringKernel(2, decay, "a")(["cat"], eval_gradient=True)
    np.testing.assert_allclose(values.item(), 1 + 2 * decay**2, rtol=1e-14)
    np.testing.assert_allclose(slopes.item(), 4 * decay**2, rtol=1e-14)
    for variant in VARIANTS:
        _, slopes = StringKernel(2, 0, variant)(WORDS, eval_gradient=True)
        assert not slopes.any()


def test_fixed_decay_has_no_gradient() -> None:
    kernel = StringKernel(decay_bounds="fixed")
    assert kernel.theta.shape == (0,)
    assert kernel(WORDS, eval_gradient=True)[1].shape == (len(WORDS), len(WORDS), 0)


@pytest.mark.parametrize("variant", ["a", "lodhi"])
def test_gaussian_process(variant: str) -> None:
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abc"), length)) for length in rng.integers(2, 12, size=40)]
    # Values drawn with λ = 0.4: from elsewhere, the fit must come near to it.
    values = StringKernel(2, 0.4, variant, normalize=True)(words) + 0.01 * np.eye(len(words))
    y = np.linalg.cholesky(values) @ rng.normal(size=len(words))
    kernel = StringKernel(2, 0.8, variant, normalize=True)
    model = GaussianProcessRegressor(kernel, alpha=0.01).fit(words, y)
    assert 0.2 < model.kernel_.decay < 0.7
    assert model.log_marginal_likelihood_value_ > model.log_marginal_likelihood(kernel.theta)
    assert model.predict(["abab", "c"]).shape == (2,)
    codes = [[ord(letter) - ord("a") for letter in word] for word in words]
    vectors = [path_graph([torch.eye(3)[word]]) for word in codes]
    for forms in (codes, vectors):
        again = GaussianProcessRegressor(kernel, alpha=0.01).fit(objects(forms), y)
        np.testing.assert_allclose(again.kernel_.theta, model.kernel_.theta, rtol=1e-6)


def test_svm_on_a_precomputed_gram() -> None:
    words = ["".join(RNG.choice(list("ab"), 8)) for _ in range(40)]
    labels = ["bb" in word[-2:] for word in words]
    kernel = StringKernel(2, 0)
    model = SVC(kernel="precomputed").fit(kernel(words), labels)
    # With λ = 0 the kernel sees the last two letters: whatever it has seen, it knows.
    assert model.predict(kernel(["aaaaabb", "bbba"], words)).tolist() == [True, False]


def test_protocol() -> None:
    kernel = StringKernel(3, 0.2, "lodhi", True, (1e-3, 2.0))
    assert clone(kernel).get_params() == kernel.get_params()
    assert clone(kernel) == kernel
    assert repr(kernel).startswith("StringKernel(ngram=3, decay=0.2, variant='lodhi',")
    np.testing.assert_allclose(kernel.theta, np.log([0.2]))
    np.testing.assert_allclose(kernel.clone_with_theta(np.log([0.4])).decay, 0.4)
    assert not kernel.is_stationary()
    assert kernel(WORDS, []).shape == (len(WORDS), 0)
    assert kernel(["", ""]).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ngram": 0}, "ngram must be an integer of at least 1, got 0"),
        ({"decay": -0.1}, "decay must be a number of at least 0, got -0.1"),
        ({"decay": float("nan")}, "decay must be"),
        ({"variant": "d"}, "variant must be one of a, b, c, lodhi, got 'd'"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StringKernel(**arguments)(WORDS)


@pytest.mark.parametrize("decay", [0, 0.4])
def test_local_is_the_kernel_of_prefixes(decay: float) -> None:
    for x, y in ((WORDS[0], WORDS[4]), (VECTORS[0], VECTORS[3]), ("", "ab")):
        for ngram in (1, 2, 3):
            expected = gram(
                [x[: t + 1] for t in range(len(x))], [y[: s + 1] for s in range(len(y))], ngram, decay, "a"
            ).reshape(len(x), len(y))
            found = StringKernel(ngram, decay).local(x, y)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match='local is there for variant "a"'):
        StringKernel(variant="b").local("ab", "ab")


def test_without_decay_it_is_the_random_walk_kernel_of_path_graphs() -> None:
    x, y = (torch.randn(length, 3, dtype=torch.float64) for length in (6, 5))
    graphs = path_graph([x]), path_graph([y])
    for ngram in (1, 2, 3):
        walks = RandomWalkKernel(ngram, decay=1.0).local(*graphs)
        kernel = StringKernel(ngram, decay=0)
        np.testing.assert_allclose(kernel([x], [y]).item(), walks[-1, -1], rtol=1e-12)
        np.testing.assert_allclose(kernel.local(x, y), walks, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(kernel([graphs[0]], graphs[1]).item(), walks[-1, -1], rtol=1e-12)
