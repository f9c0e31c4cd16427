"""Layers on colours instead of nodes: the same numbers, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.inputs.graphs import random_packed
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.datasets import PackedLoader

D, K, NUM_TYPES = 3, 6, 3

LAYERS: dict[str, tuple[type, dict[str, Any], int]] = {
    "walk": (RandomWalkKernelConv, {"walk_length": 2}, 1),
    "walk, 1 node": (RandomWalkKernelConv, {"walk_length": 1}, 0),
    "walk, gated": (RandomWalkKernelConv, {"walk_length": 4, "decay": "gated", "act": "tanh"}, 3),
    "walk, all lengths": (
        RandomWalkKernelConv,
        {"walk_length": 3, "decay": "learned", "all_lengths": True},
        2,
    ),
    "walk, zero rule": (RandomWalkKernelConv, {"walk_length": 3, "compose": "add", "walks_only": True}, 2),
    "deep": (DeepKernelConv, {"walk_length": 3, "decay": "gated", "act": "tanh"}, 2),
    "wl": (WLKernelConv, {"num_iterations": 4, "act": "tanh"}, 4),
    "wl, last": (WLKernelConv, {"num_iterations": 3, "readout": "last", "all_lengths": True}, 3),
    "wl, cat": (WLKernelConv, {"num_iterations": 2, "readout": "cat", "walk_length": 3, "decay": 0.7}, 3),
    "wl, 1 iteration": (WLKernelConv, {"num_iterations": 1, "walk_length": 2}, 1),
}
EVERY = pytest.mark.parametrize(("kind", "options", "depth"), LAYERS.values(), ids=LAYERS)


def make(kind: type, options: dict[str, Any], typed: bool) -> torch.nn.Module:
    layer = kind(D, K, num_edge_types=NUM_TYPES if typed else None, **options)
    randomize(layer)
    return layer


def outputs(layer: torch.nn.Module, depth: int, table: Tensor, typed: bool = True) -> tuple[Tensor, Tensor]:
    """By nodes and by colours, the latter given to the nodes."""
    (batch,) = PackedLoader(random_packed(40, max_nodes=6, num_edge_types=NUM_TYPES), 40, quotient=depth)
    # Features of three columns of codes as floats.
    x = table[batch.x].sum(1)
    by_nodes = layer(x, batch.edge_index, edge_type=batch.edge_type if typed else None)
    first = x.index_select(0, batch.quotient.first)
    by_colours = layer(first, batch.quotient)
    assert by_colours.shape == (int(batch.quotient.node.max()) + 1, K)
    return by_nodes, by_colours.index_select(0, batch.quotient.node)


@EVERY
@pytest.mark.parametrize("deeper", [0, 2], ids=["just deep enough", "deeper"])
@pytest.mark.parametrize("typed", [False, True], ids=["plain", "types"])
def test_the_same_values_and_gradients(
    kind: type, options: dict[str, Any], depth: int, typed: bool, deeper: int
) -> None:
    layer = make(kind, options, typed)
    table = torch.randn(7, D, dtype=torch.float64, requires_grad=True)
    results = []
    for out in outputs(layer, depth + deeper, table, typed):
        cotangent = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
        parameters = [table, *layer.parameters()]
        grads = torch.autograd.grad(out, parameters, cotangent, allow_unused=True, retain_graph=True)
        results.append([out.detach(), *(g for g in grads if g is not None)])
    assert len(results[0]) > 2
    for came, expected in zip(results[1], results[0], strict=True):
        scale = float(expected.abs().max().clamp(min=1e-300))
        torch.testing.assert_close(came / scale, expected / scale, rtol=0, atol=1e-12)


@EVERY
def test_float32(kind: type, options: dict[str, Any], depth: int) -> None:
    layer = make(kind, options, True).float()
    by_nodes, by_colours = outputs(layer, depth, torch.randn(7, D))
    scale = float(by_nodes.detach().abs().max())
    torch.testing.assert_close(by_colours / scale, by_nodes / scale, rtol=0, atol=1e-5)


@EVERY
def test_too_few_iterations(kind: type, options: dict[str, Any], depth: int) -> None:
    layer = make(kind, options, True)
    if depth:
        message = f"needs the colours after {depth} iterations or more, the quotient has {depth - 1}"
        with pytest.raises(ValueError, match=message):
            outputs(layer, depth - 1, torch.randn(7, D, dtype=torch.float64))


def test_relabelling_of_colours() -> None:
    layer = make(WLKernelConv, {"num_iterations": 3}, True)
    (batch,) = PackedLoader(random_packed(20, num_edge_types=NUM_TYPES), 20, quotient=1)
    x = torch.randn(7, D, dtype=torch.float64)[batch.x].sum(1)
    by_nodes = layer.relabel(x, batch.edge_index, edge_type=batch.edge_type)  # type: ignore[operator]
    by_colours = layer.relabel(x.index_select(0, batch.quotient.first), batch.quotient)  # type: ignore[operator]
    torch.testing.assert_close(by_colours.index_select(0, batch.quotient.node), by_nodes, rtol=0, atol=1e-12)


def test_what_does_not_go_with_a_quotient() -> None:
    (batch,) = PackedLoader(random_packed(20, num_edge_types=5), 20, quotient=2)
    rows = batch.quotient.first.numel()
    x = torch.randn(rows, D)
    layer = RandomWalkKernelConv(D, K, num_edge_types=5)
    with pytest.raises(ValueError, match="carries its edge types itself"):
        layer(x, batch.quotient, edge_type=batch.edge_type)
    with pytest.raises(ValueError, match=rf"a row per first colour \({rows}\), got shape \[{rows + 1}, 3\]"):
        layer(torch.randn(rows + 1, D), batch.quotient)
    with pytest.raises(ValueError, match="got a pair"):
        RandomWalkKernelConv((D, D), K, num_edge_types=5)((x, x), batch.quotient)
    with pytest.raises(ValueError, match="made with edge_dim"):
        RandomWalkKernelConv(D, K, edge_dim=2)(x, batch.quotient)
    with pytest.raises(IndexError, match="expected 0 … 2"):
        RandomWalkKernelConv(D, K, num_edge_types=3)(x, batch.quotient)
    wl = WLKernelConv(D, K, num_edge_types=5)
    for whole, watched in ((layer, layer), (wl, wl.walks[0])):
        watched.register_message_forward_hook(lambda module, inputs, out: out)
        with pytest.raises(ValueError, match="to watch single messages takes nodes, not colours"):
            whole(x, batch.quotient)
