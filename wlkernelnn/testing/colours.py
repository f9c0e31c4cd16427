"""Weisfeiler-Lehman colours: what a graph network can tell apart, and what it does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import scatter

from wlkernelnn.conv.kernel_conv import KernelConv
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.ops.colours import wl_colours

from .calling import Layer, call, require, require_graphs


def _depth(layer: Layer, depth: int | None) -> int:
    if depth is not None:
        return depth
    if isinstance(layer, KernelConv):
        return layer.num_steps
    raise ValueError(f"say to what depth a {type(layer).__name__} sees")


def node_colours(graphs: Sequence[Data], depth: int) -> list[np.ndarray]:
    """Colours of all nodes after 0 … depth rounds, over in-neighbours, with whatever edges carry."""
    flat = flat_graphs(list(graphs))
    return wl_colours(node_labels(flat), flat.source, flat.target, depth, edge_label=edge_labels(flat))


def assert_colours_decide(
    layer: Layer, graphs: Sequence[Data], depth: int | None = None, rtol: float = 1e-9
) -> float:
    """Nodes with equal Weisfeiler-Lehman colours get equal outputs, in one graph or in several.

    Args:
        layer: A layer without dropout.
        graphs: With ``x`` whose rows are labels, and whatever the layer wants to know of edges.
        depth: Rounds of colours. Default: what a layer of this package sees, L + n − 2 for
            :class:`~wlkernelnn.WLKernelConv` and n − 1 for the others.
        rtol: Allowed difference beside the largest output of the colour.
    """
    require_graphs(graphs)
    colours = node_colours(graphs, _depth(layer, depth))[-1]
    out = torch.cat([call(layer, graph) for graph in graphs])
    if not out.numel():
        return 0.0
    _, first, member = np.unique(colours, return_index=True, return_inverse=True)
    difference = (out - out[torch.as_tensor(first[member])]).abs().amax(1)
    # Beside their own: outputs of other graphs may be larger by many orders.
    largest = scatter(out.abs().amax(1), torch.as_tensor(member), reduce="max")[torch.as_tensor(member)]
    error = float((difference / largest.clamp(min=torch.finfo(out.dtype).tiny)).max())
    return require({"nodes of equal colour": error}, rtol)


def first_difference(first: Data, second: Data, rounds: int) -> int | None:
    """The first round of colouring, from 0, after which two graphs have different colours; or ``None``."""
    num_nodes = int(first.num_nodes or 0)
    for r, colours in enumerate(node_colours([first, second], rounds)):
        if not np.array_equal(np.sort(colours[:num_nodes]), np.sort(colours[num_nodes:])):
            return r
    return None


def assert_tells_apart(layer: Layer, first: Data, second: Data, rtol: float = 1e-12) -> float:
    """Two graphs that Weisfeiler-Lehman colours tell apart have different outputs, summed over nodes.

    It holds for almost all weights of a :class:`~wlkernelnn.WLKernelConv` of L iterations with walks of 2
    nodes and tanh, if L ≥ max(r, 1) + 1 where r is the round that tells the graphs apart, and no node is
    isolated (or ``all_lengths``). With ReLU or few channels it can fail. The relative difference, beside the
    sum of absolute outputs, must be larger than ``rtol``, and is returned.
    """
    outs = [call(layer, graph) for graph in (first, second)]
    scale = max(float(out.abs().sum(0).max()) for out in outs) or 1.0
    difference = float((outs[0].sum(0) - outs[1].sum(0)).abs().max()) / scale
    if not difference > rtol:
        raise AssertionError(f"the two graphs have the same output: relative difference {difference:.3g}")
    return difference
