"""Kernels by their definitions, walk by walk and pair by pair, for the tests of the exact kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch_geometric.data import Data

from tests.checks.equations import walks


def similarities(g: Data, h: Data) -> tuple[np.ndarray, np.ndarray]:
    """⟨f_v, f_v'⟩ ``[N, N']`` and w_e w_e' ⟨e, e'⟩ ``[E, E']``, entry by entry."""

    def alike(first: torch.Tensor, second: torch.Tensor) -> float:
        if first.is_floating_point():
            return float(first @ second)
        return float(torch.equal(first, second))

    def table(name: str, size: tuple[int, int]) -> np.ndarray:
        if g.get(name) is None:
            return np.ones(size)
        rows = [[alike(a, b) for b in h[name]] for a in g[name]]
        return np.array(rows).reshape(size)

    nodes, edges = (g.num_nodes, h.num_nodes), (g.num_edges, h.num_edges)
    weights = table("edge_type", edges) * table("edge_attr", edges)
    for side, graph in enumerate((g, h)):
        if graph.get("edge_weight") is not None:
            weight = graph.edge_weight.numpy()
            weights = weights * (weight[:, None] if side == 0 else weight)
    return table("x", nodes), weights


def walk_kernel(g: Data, h: Data, walk_length: int, decay: float) -> float:
    """Eq. (5), over every pair of walks."""
    nodes, edges = similarities(g, h)
    total = 0.0
    ours, theirs = ([*walks(graph.edge_index, graph.num_nodes, walk_length)] for graph in (g, h))
    for along, steps in ours:
        for beside, others in theirs:
            total += math.prod(nodes[v, w] for v, w in zip(along, beside, strict=True)) * math.prod(
                edges[e, f] for e, f in zip(steps, others, strict=True)
            )
    return decay ** (walk_length - 1) * total


def product_matrix(g: Data, h: Data) -> np.ndarray:
    """A×D of two graphs: from pairs of nodes (columns) to pairs of nodes."""
    nodes, edges = similarities(g, h)
    matrix = np.zeros((g.num_nodes, h.num_nodes, g.num_nodes, h.num_nodes))
    for e, (u, v) in enumerate(g.edge_index.t().tolist()):
        for f, (s, t) in enumerate(h.edge_index.t().tolist()):
            matrix[v, t, u, s] += edges[e, f] * nodes[u, s]
    return matrix.reshape(2 * [g.num_nodes * h.num_nodes])


def gram(graphs: Sequence[Data], others: Sequence[Data], entry: Callable[[Data, Data], float]) -> np.ndarray:
    return np.array([[entry(g, h) for h in others] for g in graphs]).reshape(len(graphs), len(others))


def assert_slopes(kernel: object, X: object, rtol: float = 1e-6) -> None:
    """The gradient with respect to log λ is that of the values."""
    from sklearn.base import clone

    values, slopes = kernel(X, eval_gradient=True)  # type: ignore[operator]
    assert slopes.shape == (*values.shape, 1)
    step = 1e-5
    up, down = (
        clone(kernel).set_params(decay=kernel.decay * math.exp(sign * step))(X)  # type: ignore[attr-defined]
        for sign in (1, -1)
    )
    scale = max(1e-300, abs(slopes).max(), abs(values).max())
    np.testing.assert_allclose(slopes[:, :, 0] / scale, (up - down) / (2 * step) / scale, rtol=0, atol=rtol)
