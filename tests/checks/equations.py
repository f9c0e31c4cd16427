"""The equations of the layers, written out with dense matrices and with every walk one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from wlkernelnn.conv.edge_map import EdgeMap
from wlkernelnn.conv.walk import WalkConv

Activation = Callable[[Tensor], Tensor]


def randomize(layer: torch.nn.Module) -> None:
    """Draw every parameter, also those that begin at a special value, and compute in float64."""
    layer.double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.5)


def walks(edge_index: Tensor, num_nodes: int, length: int) -> Iterator[tuple[list[int], list[int]]]:
    """Every walk of ``length`` nodes, by trying them all: its nodes and the numbers of its edges."""
    if length == 1:
        yield from (([node], []) for node in range(num_nodes))
        return
    for nodes, edges in walks(edge_index, num_nodes, length - 1):
        for edge in (edge_index[0] == nodes[-1]).nonzero().flatten().tolist():
            yield [*nodes, int(edge_index[1, edge])], [*edges, edge]


def sums_over_walks(
    x: Tensor, weights: Sequence[Tensor], edge_index: Tensor, factors: Sequence[Tensor]
) -> Tensor:
    """The sum over all walks that end in a node of Π ⟨f, w⟩ and Π factors: ``[N, K]``.

    Args:
        x: ``[N, d]``.
        weights: The matrices of the nodes of the walk, ``[K, d]``.
        factors: The factors of the steps of the walk, ``[E, K]``.
    """
    projections = [x @ weight.t() for weight in weights]
    out = torch.zeros_like(projections[0])
    for nodes, edges in walks(edge_index, x.size(0), len(weights)):
        terms = [projection[node] for projection, node in zip(projections, nodes, strict=True)]
        terms += [factor[edge] for factor, edge in zip(factors, edges, strict=True)]
        out[nodes[-1]] += torch.stack(terms).prod(0)
    return out


def matrix_of(edge_map: EdgeMap | None) -> Tensor:
    """The matrix ``[edge features, K]``, whether edges come as codes (then one-hot) or as floats."""
    assert edge_map is not None
    if edge_map.table is not None:
        return edge_map.table
    assert edge_map.lin is not None
    return edge_map.lin.weight.t()


def step_factors(
    conv: WalkConv,
    x: Tensor | tuple[Tensor, Tensor],
    edge_index: Tensor,
    edge_weight: Tensor | None = None,
    edge_features: Tensor | None = None,
) -> list[Tensor]:
    """w_uv · λ_uv ⊙ W_e⁽ʲ⁾ e_uv of every step j, ``[E, K]`` each, from a layer's parameters."""
    source, target = x if isinstance(x, tuple) else (x, x)
    u, v = edge_index
    common = source.new_ones(edge_index.size(1), conv.out_channels)
    if edge_weight is not None:
        common = common * edge_weight.view(-1, 1)
    if conv.decay.gated:
        lin_source, lin_target = conv.decay.lins
        logits = source[u] @ lin_source.weight.t() + target[v] @ lin_target.weight.t() + lin_target.bias
        if edge_features is not None:
            logits = logits + edge_features @ matrix_of(conv.edge_gate)
        common = common * conv.decay.gate_scale / (1 + torch.exp(-logits))
    else:
        common = common * conv.decay()
    if edge_features is None:
        return [common] * (conv.walk_length - 1)
    return [common * (edge_features @ matrix_of(edge_map)) for edge_map in conv.edge_factors]


def walk_states(
    x: Tensor | tuple[Tensor, Tensor],
    weights: Sequence[Tensor],
    edge_index: Tensor,
    factors: Sequence[Tensor],
    act: Activation = lambda c: c,
    compose: str = "mul",
    only_walks: bool = False,
) -> list[Tensor]:
    """c_1 … c_n of eq. (8) with an adjacency matrix for every step and channel.

    Args:
        only_walks: Nodes where no walk of j nodes ends have c_j = 0 and send nothing (appendix E).
    """
    source, target = x if isinstance(x, tuple) else (x, x)
    num_sources, num_targets = source.size(0), target.size(0)
    states = [source @ weights[0].t()]
    for j, (weight, factor) in enumerate(zip(weights[1:], factors, strict=True), start=1):
        adjacency = source.new_zeros(num_targets, num_sources, weight.size(0))
        for edge, (u, v) in enumerate(edge_index.t().tolist()):
            adjacency[v, u] += factor[edge]
        sent = act(states[-1])
        if only_walks:
            sent = _where_walks_end(edge_index, num_sources, j).to(sent) * sent
        total = torch.einsum("vuk,uk->vk", adjacency, sent)
        new = target @ weight.t()
        state = total * new if compose == "mul" else total + new
        if only_walks:
            state = _where_walks_end(edge_index, num_sources, j + 1).to(state) * state
        states.append(state)
    return states


def _where_walks_end(edge_index: Tensor, num_nodes: int, length: int) -> Tensor:
    ends = torch.zeros(num_nodes, 1)
    for nodes, _ in walks(edge_index, num_nodes, length):
        ends[nodes[-1]] = 1
    return ends
