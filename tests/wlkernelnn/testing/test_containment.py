"""Theorems 2 and 4: states of deep networks lie in the spaces of their kernels, with the norm bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch_geometric.data import Data

from tests.inputs.strategies import graphs, strings
from wlkernelnn import DeepKernelConv
from wlkernelnn.kernels import ArcCosine, Composition, DeepGraphKernel, DeepStringKernel, Inverse, Polynomial
from wlkernelnn.sequence import StringKernelConv
from wlkernelnn.testing import ACTIVATIONS, assert_in_rkhs, deep_graphs, deep_strings, rkhs_norm, rkhs_ratios
from wlkernelnn.testing import exact as exact_module

mpmath = pytest.importorskip("mpmath")

# Activation, the kernel in whose space it lies, and the size of weights and features.
PAIRS: dict[str, tuple[str, str | Composition, float]] = {
    "linear": ("linear", "identity", 0.5),
    "square": ("square", Polynomial(2, 1.0), 0.5),
    "quadratic": ("quadratic", Polynomial(2, 0.5), 0.5),
    "exp": ("exp", "exp", 0.1),
    "sin": ("sin", Inverse(40.0), 0.02),
    "erf": ("erf", Inverse(40.0), 0.02),
    "tanh": ("tanh", Inverse(40.0), 0.02),
}


def stack(
    activation: str, depth: int, scale: float, walk_length: int = 2, decay: float = 0.5, **options: object
) -> list[DeepKernelConv]:
    torch.manual_seed(depth)
    layers = [
        DeepKernelConv(
            2 if i == 0 else 3,
            3 if i < depth - 1 else 2,
            walk_length,
            decay,
            act=ACTIVATIONS[activation],
            **options,
        ).double()  # type: ignore[arg-type]
        for i in range(depth)
    ]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=scale)
    return layers


def scaled(graph: Data, scale: float) -> Data:
    graph = graph.clone()
    graph.x = graph.x * scale
    return graph


@pytest.mark.halved
@pytest.mark.parametrize(
    ("pair", "depth"),
    # Three times exp(exp(…)) of what several edges bring leaves float64.
    [(pair, 2 if name == "exp" else 2 + i % 2) for i, (name, pair) in enumerate(PAIRS.items())],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
@pytest.mark.parametrize("compose", ["mul", "add"])
def test_theorem_4(pair: tuple[str, str | Composition, float], compose: str, depth: int) -> None:
    name, composition, scale = pair
    decay = 0.001 if name == "exp" else 0.5
    layers = stack(name, depth, scale, decay=decay, compose=compose)
    kernel = DeepGraphKernel(depth, 2, decay, compose, composition)

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(st.lists(graphs(num_features=2, max_nodes=4, max_edges=4), min_size=1, max_size=3))
    def check(some: list[Data]) -> None:
        assume(any(graph.num_nodes for graph in some))
        tightest = assert_in_rkhs(layers, kernel, [scaled(g, scale) for g in some], ACTIVATIONS[name])
        assert 0 <= tightest <= 1 + 1e-12

    check()


@pytest.mark.parametrize(
    "options",
    [
        {"walk_length": 3, "compose": "mul"},
        {"walk_length": 3, "compose": "add", "walks_only": True},
        {"num_edge_types": 2, "compose": "mul"},
        {"edge_dim": 2, "compose": "add"},
    ],
    ids=str,
)
def test_longer_walks_zero_rule_and_edges(options: dict[str, object]) -> None:
    layers = stack("quadratic", 2, 0.4, **options)  # type: ignore[arg-type]
    names = ("walk_length", "compose", "walks_only")
    kernel = DeepGraphKernel(2, decay=0.5, **{k: v for k, v in options.items() if k in names})  # type: ignore[arg-type]
    carried = {k: v for k, v in options.items() if k in ("num_edge_types", "edge_dim")}

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(
        st.lists(
            graphs(num_features=2, max_nodes=3, max_edges=4, weighted=True, **carried), min_size=2, max_size=2
        )
    )  # type: ignore[arg-type]
    def check(some: list[Data]) -> None:
        assume(any(graph.num_nodes for graph in some))
        assert assert_in_rkhs(layers, kernel, some, ACTIVATIONS["quadratic"]) <= 1 + 1e-12

    check()


def string_stack(activation: str, depth: int, scale: float, **options: Any) -> list[StringKernelConv]:
    layers = [
        StringKernelConv(
            2 if i == 0 else 3,
            3 if i < depth - 1 else 2,
            **{"decay": 0.5, "normalize": False, "act": ACTIVATIONS[activation], **options},
        ).double()
        for i in range(depth)
    ]
    for layer in layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=scale)
    return layers


@pytest.mark.halved
@pytest.mark.parametrize(
    ("pair", "depth"),
    [(pair, 2 if name == "exp" else 3 - i % 2) for i, (name, pair) in enumerate(PAIRS.items())],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
@pytest.mark.parametrize("ngram", [1, 3])
def test_theorem_2(pair: tuple[str, str | Composition, float], ngram: int, depth: int) -> None:
    name, composition, scale = pair
    layers = string_stack(name, depth, scale, ngram=ngram)
    kernel = DeepStringKernel(depth, ngram, 0.5, composition)

    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(strings(width=2, max_strings=3, max_tokens=3))
    def check(some: list[Tensor]) -> None:
        ratios = rkhs_ratios(layers, kernel, [scale * string for string in some], ACTIVATIONS[name])
        assert ratios.keys() == {"c", "h"}
        assert all(0 <= ratio <= 1 + 1e-12 for ratio in ratios.values())

    check()


@pytest.mark.parametrize("decay", [0, 1])
def test_theorem_2_at_the_ends(decay: float) -> None:
    layers = string_stack("square", 2, 0.5, decay=decay)
    assert assert_in_rkhs(layers, DeepStringKernel(2, 2, decay), STRINGS, ACTIVATIONS["square"]) <= 1 + 1e-12


@pytest.mark.parametrize("compose", ["mul", "add"])
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("readout", ["last", "sum"])
def test_theorem_2_of_table_4(compose: str, averaged: bool, readout: str) -> None:
    options = {"compose": compose, "readout": readout}
    layers = string_stack("square", 2, 0.5, ngram=2, normalize=averaged, **options)
    kernel = DeepStringKernel(2, 2, 0.5, averaged=averaged, **options)
    assert assert_in_rkhs(layers, kernel, STRINGS, ACTIVATIONS["square"]) <= 1 + 1e-12


STRINGS = [torch.randn(n, 2, generator=torch.Generator().manual_seed(n)).double() for n in (3, 0, 1, 2)]


def fixed(seed: int = 0, nodes: int = 3) -> Data:
    torch.manual_seed(seed)
    return Data(x=torch.randn(nodes, 2).double(), edge_index=torch.randint(nodes, (2, 2 * nodes)))


SOME = [fixed(0, 4), fixed(1, 3)]


def test_the_bound_is_reached() -> None:
    """With as many nodes as features, the smallest function with the values of c_1 is c_1 itself."""
    layers = stack("square", 2, 0.5)
    assert assert_in_rkhs(layers, DeepGraphKernel(2, 2, 0.5), SOME, ACTIVATIONS["square"]) == pytest.approx(1)
    ratios = rkhs_ratios(layers, DeepGraphKernel(2, 2, 0.5), SOME, ACTIVATIONS["square"])
    assert ratios["c"] == pytest.approx(1)
    assert 0 < ratios["sum"] < 0.999 > ratios["h"] > 0


# That the assertion notices.


def test_a_network_outside_the_space_is_found_out() -> None:
    """A bias is no function of the kernel's space: features are all there is in it."""
    layers = stack("linear", 1, 0.5)
    kernel = DeepGraphKernel(1, 2, 0.5, "mul", "identity")
    real = deep_graphs.states

    def with_bias(*arguments: object):
        for state in real(*arguments):  # type: ignore[arg-type]
            yield state._replace(values=state.values + 1) if state.what.startswith("c_1") else state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deep_graphs, "states", with_bias)
        with pytest.raises(
            AssertionError, match=r"c_1 of layer 1, channel 0: squared norm .*, outside the space"
        ):
            assert_in_rkhs(layers, kernel, SOME, ACTIVATIONS["linear"])


def test_a_bound_that_is_too_small_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = deep_graphs.states

    def tighter(*arguments: object):
        for state in real(*arguments):  # type: ignore[arg-type]
            yield state._replace(norms=state.norms * (1 - 1e-9))

    monkeypatch.setattr(deep_graphs, "states", tighter)
    with pytest.raises(AssertionError, match="allowed is"):
        assert_in_rkhs(stack("square", 2, 0.5), DeepGraphKernel(2, 2, 0.5), SOME, ACTIVATIONS["square"])


@pytest.mark.parametrize(
    "change", [np.square, lambda values: values * (1 + 1e-6)], ids=["outside", "beyond_the_bound"]
)
def test_strings_outside_the_space_are_found_out(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The square of a state is no linear function of the string, and larger states need a larger bound."""
    real = deep_strings.states

    def spoilt(*arguments: object):
        for state in real(*arguments):  # type: ignore[arg-type]
            yield state._replace(values=change(state.values))

    monkeypatch.setattr(deep_strings, "states", spoilt)
    layers, kernel = string_stack("linear", 1, 0.5), DeepStringKernel(1, 2, 0.5, "identity")
    with pytest.raises(AssertionError, match=r"c_1 of layer 1, channel .: squared norm"):
        assert_in_rkhs(layers, kernel, STRINGS, ACTIVATIONS["linear"])


def test_string_layers_that_compute_something_else_are_found_out() -> None:
    layers = string_stack("square", 2, 0.5)
    layers[1].register_forward_hook(lambda module, inputs, out: (out[0] * (1 + 1e-8), out[1]))
    with pytest.raises(AssertionError, match="the layers beside their exact values"):
        assert_in_rkhs(layers, DeepStringKernel(2, 2, 0.5), STRINGS, ACTIVATIONS["square"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ngram": 3}, "ngram is 3 of a layer, 2 of the kernel"),
        ({"normalize": True}, "normalize is True of a layer, False of the kernel"),
        ({"compose": "add"}, "compose is add of a layer, mul of the kernel"),
        ({"readout": "sum"}, "readout is sum of a layer, last of the kernel"),
        ({"decay": 0.4}, "decay is 0.4 of a layer, 0.5 of the kernel"),
        ({"decay": "gated", "feedback": True}, "feedback is True of a layer, False of the kernel"),
    ],
    ids=str,
)
def test_string_layers_of_another_kernel(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert_in_rkhs(
            string_stack("square", 2, 0.5, **options),
            DeepStringKernel(2, 2, 0.5),
            STRINGS,
            ACTIVATIONS["square"],
        )


def test_layers_that_compute_something_else_are_found_out() -> None:
    layers = stack("square", 2, 0.5)
    layers[1].register_forward_hook(lambda module, inputs, out: out * (1 + 1e-8))
    with pytest.raises(AssertionError, match="the layers beside their exact values"):
        assert_in_rkhs(layers, DeepGraphKernel(2, 2, 0.5), SOME, ACTIVATIONS["square"])


def test_a_kernel_that_computes_something_else_is_found_out() -> None:
    class Wrong(DeepGraphKernel):
        def gram(self, *arguments: object, **options: object) -> np.ndarray:
            return super().gram(*arguments, **options) * (1 + 1e-8)  # type: ignore[arg-type]

    with pytest.raises(AssertionError, match="the kernel beside its exact values"):
        assert_in_rkhs(stack("square", 2, 0.5), Wrong(2, 2, 0.5), SOME, ACTIVATIONS["square"])


@pytest.mark.parametrize(
    ("options", "kernel", "activation", "message"),
    [
        ({}, DeepGraphKernel(3, 2, 0.5), "square", "2 layers for a kernel with num_layers=3"),
        ({}, DeepGraphKernel(2, 3, 0.5), "square", "walk_length is 2 of a layer, 3 of the kernel"),
        ({}, DeepGraphKernel(2, 2, 0.5, "add"), "square", "compose is mul of a layer, add of the kernel"),
        ({}, DeepGraphKernel(2, 2, 0.5, walks_only=True), "square", "walks_only is False of a layer"),
        ({}, DeepGraphKernel(2, 2, 0.6), "square", "decay is 0.5 of a layer, 0.6 of the kernel"),
        ({}, DeepGraphKernel(2, 2, 0.5), "quadratic", "expected act=quadratic"),
        ({}, DeepGraphKernel(2, 2, 0.5, composition=ArcCosine(1)), "square", "must be a power series"),
        ({}, DeepGraphKernel(2, 2, 0.5, composition="identity"), "square", "has a term of degree 2"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_does_not_go_together(
    options: dict[str, object], kernel: DeepGraphKernel, activation: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        assert_in_rkhs(stack("square", 2, 0.5, **options), kernel, SOME, ACTIVATIONS[activation])  # type: ignore[arg-type]


def test_infinite_norms_are_named() -> None:
    """tanh with weights beyond its radius of convergence: nothing can be said."""
    layers = stack("tanh", 2, 2.0)
    with pytest.raises(ValueError, match="tanh has no finite norm in the space of Inverse"):
        assert_in_rkhs(layers, DeepGraphKernel(2, 2, 0.5, "mul", Inverse(1e2)), SOME, ACTIVATIONS["tanh"])


def test_rkhs_norm() -> None:
    """fᵀK⁻¹f where K is invertible; f outside K's range where it is not."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 4))
    f = rng.normal(size=4)
    exact = exact_module.exact
    with mpmath.workdps(50):
        norm, outside = rkhs_norm(exact(f), exact(a @ a.T))
        assert float(norm) == pytest.approx(f @ np.linalg.solve(a @ a.T, f), rel=1e-6)
        assert outside == 0
        low = exact(a[:, :2])
        inside = low @ exact(np.array([2.0, -3.0]))
        norm, outside = rkhs_norm(inside, low @ low.T)
        assert float(norm) == pytest.approx(13)
        assert outside < 1e-20
        assert rkhs_norm(exact(f), low @ low.T)[1] > 1e10
        assert rkhs_norm(exact(np.zeros(2)), exact(np.zeros((2, 2)))) == (0, 0)
        assert rkhs_norm(exact(np.ones(2)), exact(np.zeros((2, 2))))[1] == 1
