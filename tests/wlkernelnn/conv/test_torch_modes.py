"""Compiling, autocast, inference mode, transforms and second derivatives, for all layers alike."""

from __future__ import annotations

import copy
import logging
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.checks.kernel_convs import (
    ALL_LAYERS,
    ALL_OPTIONS,
    LAYERS,
    OPTIONS,
    D,
    arguments_of,
    make,
    select,
    watch,
)
from tests.checks.pairwise import pairwise
from tests.checks.transforms import assert_transforms_agree
from tests.inputs.graphs import EDGE_INDEX_FORMS, EDGES, as_edge_index, random_edges


def sized_inputs(options: dict[str, Any], seed: int, num_nodes: int, num_edges: int, form: str) -> tuple:
    edges = random_edges(num_nodes, num_nodes, num_edges, seed)
    edges.edge_index[:, 0] = num_nodes - 1  # whose last node has no edge need another EdgeIndex
    edge_index, order = as_edge_index(edges, form)
    arguments = select(arguments_of(options, num_edges), order)
    return torch.randn(num_nodes, D, requires_grad=True), edge_index, arguments


@pytest.mark.parametrize(
    ("layer", "options", "form", "backend"),
    [
        # A layer of Weisfeiler and Lehman goes through such walks.
        pytest.param(
            *("random_walk", OPTIONS["gated-types"], "plain", "aot_eager"),
            id="random_walk",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("random_walk", OPTIONS["gated-types"], "plain", "inductor"),
            id="inductor",
            marks=pytest.mark.slow,
        ),
        pytest.param("deep", OPTIONS["constant"], "plain", "aot_eager", id="deep"),
        pytest.param("wl", OPTIONS["gated-types"], "by_col_with_pointers", "aot_eager", id="wl"),
    ],
)
def test_compiles_once_for_graphs_of_all_sizes(
    layer: str, options: dict[str, Any], form: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Torch traces its compilations once this logger has a handler, which pytest gives it, and a trace fixes
    # the sizes that it prints.
    monkeypatch.setattr(logging.getLogger("torch.__trace"), "handlers", [])
    if backend == "inductor" and not (shutil.which("g++") or shutil.which("clang++")):
        pytest.skip("inductor needs a C++ compiler")
    torch.compiler.reset()
    conv = make(layer, options)
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend=backend)

    def run(function: Callable[..., Tensor], x: Tensor, edge_index: Tensor, arguments: dict) -> list[Tensor]:
        out = function(x, edge_index, **arguments)
        return [out, *torch.autograd.grad(out.square().sum(), [x, *conv.parameters()])]

    first, *others = (
        sized_inputs(options, seed, num_nodes, num_edges, form)
        for seed, (num_nodes, num_edges) in enumerate([(12, 40), (20, 61), (7, 15)])
    )
    torch.testing.assert_close(run(compiled, *first), run(conv, *first))
    with torch.compiler.set_stance("fail_on_recompile"):
        came = [run(compiled, *inputs) for inputs in others]
    for result, inputs in zip(came, others, strict=True):
        torch.testing.assert_close(result, run(conv, *inputs))


@ALL_LAYERS
@ALL_OPTIONS
def test_autocast(layer: str, options: dict[str, Any]) -> None:
    edge_index = EDGES["random"].edge_index
    conv, x, arguments = make(layer, options), torch.randn(12, D), arguments_of(options, 40)
    out = conv(x, edge_index, **arguments)
    gradients = torch.autograd.grad(out.square().sum(), list(conv.parameters()))
    with torch.autocast("cpu", torch.bfloat16):
        rough = conv(x, edge_index, **arguments)
        watched = copy.deepcopy(conv)
        watch(watched, "register_message_forward_hook")
        rough_watched = watched(x, edge_index, **arguments)
    rough_gradients = torch.autograd.grad(rough.float().square().sum(), list(conv.parameters()))
    for came, expected in zip([rough, rough_watched, *rough_gradients], [out, out, *gradients], strict=True):
        assert bool((came.float() - expected).norm() < 0.1 * expected.norm())


@pairwise(layer=LAYERS.keys(), options=OPTIONS, form=EDGE_INDEX_FORMS)
def test_inference_mode(layer: str, options: dict[str, Any], form: str) -> None:
    edges, conv, x = EDGES["random"], make(layer, options), torch.randn(12, D)
    arguments = arguments_of(options, 40)
    expected = conv(x, edges.edge_index, **arguments)
    made_before, order = as_edge_index(edges, form)
    with torch.inference_mode():
        made_inside, _ = as_edge_index(edges, form)
        for edge_index in (made_before, made_inside):
            out = conv(x, edge_index, **select(arguments, order))
            torch.testing.assert_close(out, expected.detach())


@ALL_LAYERS
@pytest.mark.parametrize("options", [OPTIONS["constant"], OPTIONS["gated"]], ids=["constant", "gated"])
def test_second_derivatives(layer: str, options: dict[str, Any]) -> None:
    """Of a gradient with respect to the input, as forces are: by the weights."""
    edge_index = EDGES["self_loops"].edge_index
    conv = make(layer, options)
    randomize(conv)
    x = torch.randn(3, D, dtype=torch.float64, requires_grad=True)
    weight = next(conv.parameters())

    def force() -> Tensor:
        (gradient,) = torch.autograd.grad(conv(x, edge_index).sum(), x, create_graph=True)
        return gradient.square().sum()

    (came,) = torch.autograd.grad(force(), weight)
    step, direction = 1e-6, torch.randn_like(weight)
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            weight += sign * step * direction
        ends.append(float(force().detach()))
        with torch.no_grad():
            weight -= sign * step * direction
    slope = torch.tensor((ends[0] - ends[1]) / (2 * step), dtype=torch.float64)
    torch.testing.assert_close((came * direction).sum(), slope, rtol=1e-5, atol=1e-7)


@ALL_LAYERS
@ALL_OPTIONS
def test_transforms_of_torch_func(layer: str, options: dict[str, Any]) -> None:
    conv, arguments = make(layer, options), arguments_of(options, 40)
    randomize(conv)
    arguments = {name: v.double() if v.is_floating_point() else v for name, v in arguments.items()}
    x = torch.randn(12, D, dtype=torch.float64)
    assert_transforms_agree(conv, lambda conv, x: conv(x, EDGES["random"].edge_index, **arguments), x)
