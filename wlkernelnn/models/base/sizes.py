"""What a network takes from a data set before it trains: sizes, and the scale of the targets."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES


def sizes_of(network: type, data: PackedGraphs) -> dict[str, Any]:
    """The arguments of a class of networks that a data set decides.

    Raises:
        ValueError: ``data`` has no targets, or does not say how many values its node codes have.
    """
    about = data.description
    if data.num_tasks == 0:
        raise ValueError(f"data set {about.name!r} has no targets to size a network from")
    if not (about.node_dims or about.num_node_features):
        raise ValueError(f"data set {about.name!r}: its description has no node_dims")
    sizes: dict[str, Any] = {
        "node_dims": about.node_dims,
        "num_edge_types": about.num_edge_types or None,
        "num_tasks": len(data.classes) if about.task in SEVERAL_CLASSES else data.num_tasks,
        "task": about.task or "regression",
    }
    where_any = {
        "num_node_values": about.num_node_values,
        "num_graph_values": about.num_graph_values,
        "in_channels": about.num_node_features,
        "edge_values": about.numbered_edges,
    }
    if not takes(network, "edge_values"):  # a network of one's own may not look at edges
        del where_any["edge_values"]
    return sizes | {name: value for name, value in where_any.items() if value}


def takes(network: type, name: str) -> bool:
    """Whether a class has an argument of this name."""
    parameters = inspect.signature(network).parameters
    return name in parameters or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


def targets_of_scale(data: PackedGraphs) -> Tensor:
    """Targets that the scale is of, ``[G, tasks]``: the measured ones, and bounds where those have none."""
    y = data.measured
    if data.censored is not None:
        _, std = mean_and_std(y)
        y[:, std == 0] = data.y.double()[:, std == 0]
    return y


def mean_and_std(y: Tensor) -> tuple[Tensor, Tensor]:
    """Of targets ``[G, tasks]`` (NaN = missing), each ``[tasks]``: 0 of targets without values."""
    mean = y.nanmean(0).nan_to_num(0.0)
    std = ((y - mean) ** 2).nanmean(0).sqrt().nan_to_num(0.0)
    # Rounding alone moves the mean of equal targets off them.
    return mean, torch.where(std > 1e-12 * mean.abs(), std, 0.0)
