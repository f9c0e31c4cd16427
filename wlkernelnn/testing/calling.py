"""How the assertions call a layer, and how they compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.utils import modes

# conv(x, edge_index, edge_attr=…, edge_type=…, edge_weight=…)
Layer = Callable[..., Tensor]

EDGE_FEATURES = ("edge_attr", "edge_type", "edge_weight")


def edge_features(graph: Data) -> dict[str, Tensor]:
    """What the edges of a graph carry, as keyword arguments of a layer."""
    return {name: graph[name] for name in EDGE_FEATURES if graph.get(name) is not None}


@contextmanager
def inferring(layer: Any) -> Iterator[None]:
    """Evaluation mode, of a layer that has one, without gradients; afterwards the modes are as they were."""
    with modes.evaluating(layer) if isinstance(layer, torch.nn.Module) else nullcontext(), torch.no_grad():
        yield


def call(layer: Layer, graph: Data) -> Tensor:
    """A layer's output on a graph, ``[N, out_channels]``, in evaluation mode and without gradients."""
    with inferring(layer):
        return layer(graph.x, graph.edge_index, **edge_features(graph))


def largest_error(came: Tensor, expected: Tensor, scale: Tensor | float | None = None) -> float:
    """The largest |came − expected| beside ``scale``, by default the largest |expected|; 0 of nothing."""
    if came.shape != expected.shape:
        raise AssertionError(f"the result has shape {list(came.shape)}, expected {list(expected.shape)}")
    if not came.numel():
        return 0.0
    if not bool(torch.isfinite(came).all()):
        raise AssertionError("the result is not finite")
    reference = expected.abs().max() if scale is None else torch.as_tensor(scale, dtype=expected.dtype)
    error = (came - expected).abs()
    return float((error / reference.clamp(min=torch.finfo(expected.dtype).tiny)).max())


def require(errors: Mapping[str, float], rtol: float) -> float:
    """The largest of errors by what has them; all must be at most ``rtol``."""
    for what, error in errors.items():
        if not error <= rtol:  # nor is NaN right
            raise AssertionError(f"{what}: relative error {error:.3g}, allowed is {rtol:.3g}")
    return max(errors.values(), default=0.0)


def require_graphs(graphs: Sequence[Data]) -> None:
    if not len(graphs):
        raise ValueError("graphs is empty: there is nothing to check")


def require_strings(strings: Sequence[Tensor]) -> None:
    if not any(len(string) for string in strings):
        raise ValueError("strings holds no token: there is nothing to check")


def require_float64(layer: Any, graphs: Sequence[Data] = ()) -> None:
    """The assertions are about equations, not about rounding: weights and features must be float64."""
    if isinstance(layer, torch.nn.Module):
        for name, parameter in layer.named_parameters():
            if parameter.dtype != torch.float64:
                raise ValueError(f"{name} is {parameter.dtype}: make the layer double() first")
    for i, graph in enumerate(graphs):
        for name in ("x", "edge_attr", "edge_weight"):
            values = graph.get(name)
            if isinstance(values, Tensor) and values.dtype != torch.float64:
                raise ValueError(f"{name} of graph {i} is {values.dtype}: make it double() first")
