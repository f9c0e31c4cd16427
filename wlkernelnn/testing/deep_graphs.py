"""Theorem 4: the recursions of section 3.3, of a network, of its kernel, and of norms, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from wlkernelnn.conv.deep import DeepKernelConv
from wlkernelnn.kernels import DeepGraphKernel

from .calling import call, edge_features
from .exact import Activated, State, exact
from .kernel_layers import edge_matrix
from .series import mpmath


def expected(kernel: DeepGraphKernel) -> dict[str, Any]:
    """What a layer must be to go with a kernel."""
    return {name: getattr(kernel, name) for name in ("walk_length", "compose", "walks_only")}


class _Graphs(NamedTuple):
    """All graphs as one: features, a matrix ``[N, N]`` per column of edge features, edges, owners."""

    x: np.ndarray
    adjacency: list[np.ndarray]
    reached: np.ndarray
    owner: np.ndarray
    num_graphs: int


def _joined(graphs: Sequence[Data], num_edge_types: int | None) -> _Graphs:
    sizes = [int(graph.num_nodes or 0) for graph in graphs]
    nodes = sum(sizes)
    columns: list[np.ndarray] = []
    reached = np.zeros((nodes, nodes), dtype=bool)
    for graph, first in zip(graphs, np.cumsum([0, *sizes]), strict=False):
        assert graph.edge_index is not None
        source, target = graph.edge_index.numpy() + first
        known = edge_features(graph)
        values = known.get("edge_attr", torch.ones(len(source), 1, dtype=torch.float64))
        if num_edge_types is not None:
            values = one_hot(known["edge_type"], num_edge_types).double()
        if "edge_weight" in known:
            values = values * known["edge_weight"].view(-1, 1)
        columns = columns or [exact(np.zeros((nodes, nodes))) for _ in range(values.size(1))]
        for matrix, column in zip(columns, exact(values).T, strict=True):
            np.add.at(matrix, (target, source), column)
        reached[target, source] = True
    x = torch.cat([graph.x for graph in graphs if graph.x is not None])
    return _Graphs(exact(x), columns, reached, np.repeat(np.arange(len(graphs)), sizes), len(graphs))


def states(
    layers: Sequence[DeepKernelConv], kernel: DeepGraphKernel, activated: Activated, graphs: Sequence[Data]
) -> Iterator[State]:
    """All states of a network, in exact arithmetic; the last is summed over the nodes of every graph."""
    joined = _joined(graphs, layers[0].num_edge_types)
    lam = mpmath.mpf(kernel.decay)
    nothing = exact(np.zeros((len(joined.x), len(joined.x))))

    def compose(own: np.ndarray, moved: np.ndarray) -> np.ndarray:
        return np.asarray(own * moved if kernel.compose == "mul" else own + moved)

    h, k_base, norms_base = joined.x, joined.x @ joined.x.T, exact(np.eye(joined.x.shape[1]))
    for depth, layer in enumerate(layers, 1):
        weights = [exact(cast(Tensor, lin.weight)) for lin in layer.lins]
        c, k, gram = h @ weights[0].T, k_base, weights[0] @ norms_base @ weights[0].T
        ends: np.ndarray = np.ones(len(h), dtype=bool)
        for j in range(1, kernel.walk_length):
            yield State("c", f"c_{j} of layer {depth}", c, k, gram)
            sent, k_sent = activated.values(c), activated.kernel(k)
            if kernel.walks_only:
                sent, k_sent = sent * ends[:, None], k_sent * np.outer(ends, ends)
                ends = (joined.reached & ends).any(axis=1)
            maps = layer.edge_factors  # W_e [channels, D]: ones where edges are all alike
            factor = exact(edge_matrix(maps[j - 1]) if len(maps) else np.ones((layer.out_channels, 1)))
            moved = sum((matrix @ sent) * factor[:, d] for d, matrix in enumerate(joined.adjacency))
            k_moved = sum((matrix @ k_sent @ matrix.T for matrix in joined.adjacency), nothing)
            c = compose(h @ weights[j].T, lam * moved)
            k = compose(k_base, lam * k_moved)
            gram = compose(
                weights[j] @ norms_base @ weights[j].T, lam * (factor @ factor.T) * activated.norms(gram)
            )
            if kernel.walks_only:
                c, k = c * ends[:, None], k * np.outer(ends, ends)
        yield State("c", f"c_{kernel.walk_length} of layer {depth}", c, k, gram)
        out = exact(layer.lin_out.weight)
        h, k_base = activated.values(c @ out.T), activated.kernel(k)
        norms_base = activated.norms(out @ gram @ out.T)
        yield State("h", f"h of layer {depth}", h, k_base, norms_base)
    pool = exact(joined.owner == np.arange(joined.num_graphs)[:, None])
    yield State("sum", "the sum of h over the nodes of a graph", pool @ h, pool @ k_base @ pool.T, norms_base)


def in_float64(
    layers: Sequence[DeepKernelConv], kernel: DeepGraphKernel, graphs: Sequence[Data]
) -> tuple[Tensor, Tensor]:
    """What layers and kernel themselves make of the last state: values and Gram."""
    outs = []
    for graph in graphs:
        seen = graph.clone()
        for layer in layers:
            seen.x = call(layer, seen)
        assert seen.x is not None
        outs.append(seen.x.sum(0))
    return torch.stack(outs), torch.as_tensor(np.asarray(kernel(list(graphs))))
