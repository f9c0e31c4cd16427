"""Subsequences as walks: the weighted transitive closure of path graphs, trees and other acyclic graphs."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from wlkernelnn.datasets.graphs.pyg import with_edges
from wlkernelnn.ops.string import decayed_scan

from .path_graph import path_graph
from .reading import graph_steps, with_tokens


def subsequence_graph(graph: Data | Tensor, decay: Tensor | float) -> Data:
    r"""The weighted transitive closure: its walks of n nodes are the subsequences of n tokens.

    .. math::
        w_{ik} = \sum_{i \to r_1 \to … \to r_m \to k} \lambda_{r_1} \cdots \lambda_{r_m}

    over all paths from i to k; in a string there is one, of weight :math:`\lambda^{k-i-1}`. For every λ, a
    string layer is a random walk layer on this graph, followed by :func:`decayed_sum`: with products, s = 1
    and no activation,

    .. math::
        c_n[t] = \mathrm{decayed\_sum}(\mathrm{RandomWalkKernelConv}_n(x, w))

    (decay 1 in the walks, the same weights :math:`W^{(1)} … W^{(n)}`). With s = 1 − λ the edges and the walks
    have one more factor :math:`s_i` for the token i that a step leaves, and for the last one.

    Args:
        graph: Path graphs, or other directed acyclic graphs, one or a batch; or one string ``[T, d]``. An
            ``edge_weight`` is a factor of every path through its edge.
        decay: λ, a number or one of every token ``[N]``.

    Returns:
        The graph with edges i → k sorted by i and k, and ``edge_weight [E]``, through which gradients of λ
        flow. Edges of weight 0 are left out: with λ = 0 these are the edges of the graph itself.

    Raises:
        ValueError: There is a cycle, or an edge that leaves its graph; or ``decay`` is of another shape.
    """
    if isinstance(graph, Tensor):
        graph = path_graph([graph])
    graph_steps("subsequence_graph", graph, branches=True)  # it is acyclic: what follows ends
    x, edge_index = graph.x, graph.edge_index
    assert x is not None
    assert edge_index is not None
    of_edges = graph.get("edge_weight")
    like = next((t for t in (decay, of_edges, x) if isinstance(t, Tensor) and t.is_floating_point()), None)
    kind = torch.get_default_dtype() if like is None else like.dtype
    rates = torch.as_tensor(decay, dtype=kind, device=x.device)
    if rates.dim() and rates.shape != (len(x),):
        raise ValueError(f"decay must be a number or [{len(x)}], one per token, got {list(rates.shape)}")
    rates = rates.expand(len(x))
    source, target = edge_index.as_tensor() if isinstance(edge_index, EdgeIndex) else edge_index
    weight = rates.new_ones(len(source)) if of_edges is None else of_edges.view(-1).to(kind)
    order = torch.argsort(source, stable=True)
    out_degree = torch.bincount(source, minlength=len(x))
    begins = out_degree.cumsum(0) - out_degree
    # Paths grow by one edge in each round; those between the same two nodes are added up.
    reached = _added(source, target, weight, len(x))
    found = [reached]
    while len(reached[0]):
        first, last, so_far = reached
        counts = out_degree[last]
        path = torch.arange(len(last), device=x.device).repeat_interleave(counts)
        within = torch.arange(len(path), device=x.device) - (counts.cumsum(0) - counts)[path]
        edge, last = order[begins[last[path]] + within], last[path]
        reached = _added(first[path], target[edge], so_far[path] * rates[last] * weight[edge], len(x))
        found.append(reached)
    first, last, total = (torch.cat(part) for part in zip(*found, strict=True))
    first, last, total = _added(first, last, total, len(x))
    closed = with_edges(copy.copy(graph), torch.stack([first, last]))
    closed.edge_weight = total
    return closed


def _added(first: Tensor, last: Tensor, weight: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Weights between the same two nodes added up, in the order of the nodes; those that are not 0."""
    keys, index = torch.unique(first * num_nodes + last, return_inverse=True)
    total = weight.new_zeros(len(keys)).index_add(0, index, weight)
    keys, total = keys[total != 0], total[total != 0]
    return keys // max(num_nodes, 1), keys % max(num_nodes, 1), total


def decayed_sum(x: Tensor, graph: Data, decay: Tensor | float) -> Tensor:
    r"""What tokens leave behind them in a string, or along the edges of an acyclic graph.

    .. math::
        c[v] = \lambda_v \sum_{u \to v} c[u] + x[v]

    Args:
        x: ``[N, d]``.
        graph: Path graphs, or other directed acyclic graphs, one or a batch; ``edge_weight`` multiplies c[u].
        decay: λ, a number, one of every channel ``[d]``, or of every token ``[N, 1]`` or ``[N, d]``.

    Returns:
        c, ``[N, d]``.

    Raises:
        ValueError: There is a cycle, or an edge that leaves its graph.
    """
    steps = graph_steps("decayed_sum", with_tokens(graph, x), branches=True)
    if isinstance(decay, Tensor) and decay.dim() == 2:
        decay = steps.enter(decay.expand(x.shape))
    return steps.leave(decayed_scan(steps.enter(x), decay, steps)[steps.num_strings :])
