"""Theorem 3, equation (7), proposition 2 and the gated identity: layers that are kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Batch, Data

from wlkernelnn.conv.random_walk import RandomWalkKernelConv
from wlkernelnn.conv.walk import WalkConv
from wlkernelnn.conv.wl import WLKernelConv
from wlkernelnn.kernels import DeepGraphKernel, RandomWalkKernel, StructureKernel

from .calling import Layer, call, edge_features, largest_error, require, require_float64, require_graphs


def reference_walks(layer: WalkConv, walk_length: int | None = None) -> list[Data]:
    """The reference walk of every channel of a layer: the graphs :math:`L_k` of theorem 3.

    They are directed paths of ``walk_length`` nodes, by default all; node i of the k-th carries row k of
    W⁽ⁱ⁾, and the edge to it row k of that step's map of edge features, as ``edge_attr``, if there is one.
    """
    n = layer.walk_length if walk_length is None else walk_length
    weights = [cast(Tensor, lin.weight) for lin in layer.lins[:n]]
    nodes = torch.stack(weights, dim=1).detach()  # [K, n, d]
    path = torch.stack([torch.arange(n - 1), torch.arange(1, n)])
    walks = [Data(x=x, edge_index=path) for x in nodes]
    if len(layer.edge_factors):
        edges = torch.stack([edge_matrix(edge_map) for edge_map in layer.edge_factors], dim=1)
        for walk, of_channel in zip(walks, edges, strict=True):
            walk.edge_attr = of_channel[: n - 1]
    return walks


def edge_matrix(edge_map: Any) -> Tensor:
    """W_e ``[K, D]``: a table of codes is a map of one-hot vectors."""
    weight = edge_map.lin.weight if edge_map.table is None else edge_map.table.t()
    return weight.detach()


def seen_by_channels(layer: WalkConv, graph: Data) -> list[Data]:
    """The graph as each channel sees it, edge codes one-hot, weights times λ[k]; one if λ is constant."""
    edges = {name: value for name, value in edge_features(graph).items() if name != "edge_type"}
    if layer.num_edge_types is not None:
        edges["edge_attr"] = one_hot(graph.edge_type, layer.num_edge_types).to(graph.x)
    seen = Data(x=graph.x, edge_index=graph.edge_index, **edges)
    if isinstance(layer.decay.decay, float | int):
        return [seen]
    assert graph.x is not None
    assert graph.edge_index is not None
    source, target = graph.edge_index
    with torch.no_grad():
        if layer.decay.gated:
            gates = layer.decay.project(graph.x, graph.x)
            logits = gates[0][source] + gates[1][target]
            if layer.edge_gate is not None:
                logits = logits + edges["edge_attr"] @ edge_matrix(layer.edge_gate).t()
            rates = layer.decay.gate(logits)
        else:
            rates = layer.decay().expand(source.numel(), -1)
    weights = torch.ones_like(rates[:, 0]) if graph.get("edge_weight") is None else graph.edge_weight
    channels = []
    for k in range(layer.out_channels):
        channel = seen.clone()
        channel.edge_weight = weights.view(-1) * rates[:, k]
        channels.append(channel)
    return channels


def _walks_of(layer: Layer, graph: Data) -> Iterator[tuple[WalkConv, Data]]:
    """The walks that a layer's output sums, each with the graph as it is labelled then."""
    if not isinstance(layer, WLKernelConv):
        assert isinstance(layer, WalkConv)
        yield layer, graph
        return
    labelled = graph.clone()
    for iteration in range(layer.num_iterations):
        if iteration > 0:
            with torch.no_grad():
                labelled.x = layer.relabel(labelled.x, labelled.edge_index, **edge_features(labelled))
        if layer.readout != "last" or iteration == layer.num_iterations - 1:
            walk = layer.walks[iteration % len(layer.walks)]
            assert isinstance(walk, WalkConv)
            yield walk, labelled.clone()


def absolute(graph: Data) -> Data:
    """All numbers without their signs: what the kernel makes of it is the sum of |terms|."""
    positive = graph.clone()
    for name in ("x", "edge_attr", "edge_weight"):
        if graph.get(name) is not None:
            positive[name] = graph[name].abs()
    return positive


def _channels(kernel: StructureKernel, graphs: list[Data], walks: list[Data]) -> Tensor:
    """The kernel of each channel's graph with its reference walk, ``[K]``."""
    gram = torch.as_tensor(kernel(graphs, walks))
    return gram[0] if len(graphs) == 1 else gram.diagonal()


def _local(kernel: Any, graphs: list[Data], walks: list[Data]) -> Tensor:
    """K_loc of every node with the last node of each reference walk, ``[N, K]``."""
    # All at once: graphs that lie side by side have no walk from one to another.
    ends = np.cumsum([walk.num_nodes for walk in walks]) - 1
    columns = kernel.local(Batch.from_data_list(graphs), Batch.from_data_list(walks))[:, ends]
    if len(graphs) == 1:
        return torch.as_tensor(columns)
    of_channel = columns.reshape(len(graphs), -1, len(walks))
    return torch.as_tensor(np.stack([of_channel[k, :, k] for k in range(len(walks))], axis=1))


def _compare(
    layer: WalkConv, kernel: RandomWalkKernel | DeepGraphKernel, graph: Data, on_nodes: bool
) -> tuple[Tensor, Tensor]:
    """What the kernel says of one layer of walks, and the sum of its |terms|."""
    decay = layer.decay.decay
    expected = decay if isinstance(decay, float | int) else 1
    if kernel.decay != expected:
        raise ValueError(
            f"a layer with decay={decay!r} goes with a kernel with decay={expected}, got {kernel.decay}"
        )
    lengths = {"walk_length": layer.walk_length, "all_lengths": getattr(layer, "all_lengths", False)}
    came = {name: getattr(kernel, name, False) for name in lengths}
    if came != lengths:
        raise ValueError(f"expected a kernel of the layer's walks, {lengths}; got {came}")
    graphs = seen_by_channels(layer, graph)
    measure = _local if on_nodes else _channels
    values, scales = [], []
    for n in range(1 if lengths["all_lengths"] else layer.walk_length, layer.walk_length + 1):
        of_n = kernel
        if lengths["all_lengths"]:
            of_n = clone(kernel).set_params(walk_length=n, all_lengths=False)
        walks = reference_walks(layer, n)
        values.append(measure(of_n, graphs, walks))
        scales.append(measure(of_n, [*map(absolute, graphs)], [*map(absolute, walks)]))
    return torch.stack(values).sum(0), torch.stack(scales).sum(0)


def assert_matches_kernel(
    layer: Layer,
    kernel: StructureKernel,
    graphs: Sequence[Data],
    references: Sequence[Data] | None = None,
    rtol: float = 1e-9,
) -> float:
    r"""Channel k of a layer, summed over nodes, is the kernel of the graph with a reference graph.

    For a layer of this package the references are its own walks (:func:`reference_walks`):

    * :class:`~wlkernelnn.RandomWalkKernelConv` with products and a
      :class:`~wlkernelnn.kernels.RandomWalkKernel` of the same walk_length, decay and all_lengths: theorem 3,
      and node by node equation (7). With a learned or gated decay the kernel has decay 1, and the graph of
      channel k the edge weights λ[k].
    * the same layer with ``compose="add"`` and ``DeepGraphKernel(num_layers=1, compose="add",
      composition="identity")``: equation (7), node by node (the double sum of theorem 3 does not hold then).
    * :class:`~wlkernelnn.WLKernelConv` and its base kernel: proposition 2, with the layer's own relabelling.

    Args:
        layer: In float64.
        kernel: The kernel.
        graphs: PyG ``Data`` with float64 ``x`` and what the layer wants to know of edges.
        references: For any other layer: one graph per channel.
        rtol: Allowed error beside the sum of the absolute values of all terms of the kernel.
    """
    require_graphs(graphs)
    require_float64(layer, graphs)
    errors = {}
    for i, graph in enumerate(graphs):
        out = call(layer, graph)
        if references is not None:
            expected = torch.as_tensor(kernel([graph], list(references))[0])
            scale = torch.as_tensor(kernel([absolute(graph)], [absolute(r) for r in references])[0])
            errors[f"graph {i}"] = largest_error(out.sum(0), expected, scale)
            continue
        for on_nodes in _kinds(layer, kernel):
            compared = [_compare(walk, kernel, seen, on_nodes) for walk, seen in _walks_of(layer, graph)]
            values, scales = zip(*compared, strict=True)
            joined = getattr(layer, "readout", "sum") == "cat"
            expected, scale = (
                torch.cat(parts, dim=-1) if joined else torch.stack(parts).sum(0)
                for parts in (values, scales)
            )
            what = f"graph {i}, " + ("node by node" if on_nodes else "summed over nodes")
            errors[what] = largest_error(out if on_nodes else out.sum(0), expected, scale)
    return require(errors, rtol)


def _kinds(layer: Layer, kernel: StructureKernel) -> tuple[bool, ...]:
    """Whether to compare sums (theorem 3), nodes (equation 7), or both."""
    if isinstance(layer, WLKernelConv):
        compose, activation = "mul", None
    elif isinstance(layer, RandomWalkKernelConv):
        compose, activation = layer.compose, layer.act
    else:
        raise ValueError(f"references are needed for a {type(layer).__name__}")
    if activation is not None and not isinstance(activation, torch.nn.Identity):
        raise ValueError(
            f"with the activation {activation} the layer lies in the kernel's space, but is not the kernel: "
            "see assert_in_rkhs"
        )
    if compose == "mul" and isinstance(kernel, RandomWalkKernel) and kernel.walk_length is not None:
        return False, True
    if (
        compose == "add"
        and isinstance(kernel, DeepGraphKernel)
        and (kernel.num_layers, kernel.compose, kernel.composition) == (1, "add", "identity")
    ):
        return (True,)
    raise ValueError(f"a {type(layer).__name__} with compose={compose!r} is not the kernel {kernel!r}")
