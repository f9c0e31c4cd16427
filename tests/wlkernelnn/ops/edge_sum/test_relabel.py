from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.graphs import EDGES, Edges, assert_same_with_gradients
from wlkernelnn.ops.edge_sum import relabel_sum, relabel_sum_naive
from wlkernelnn.ops.neighbor_sum import sort_edges

CHANNELS, NUM_TYPES = 5, 3
ACTS: dict[str, Callable[[], torch.nn.Module]] = {
    "relu": torch.nn.ReLU,
    "tanh": torch.nn.Tanh,
    "identity": torch.nn.Identity,
    "elu": torch.nn.ELU,
    "prelu": torch.nn.PReLU,
}
DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
ALL_ACTS = pytest.mark.parametrize("act", ACTS)


def assert_fast_is_naive(
    act: torch.nn.Module, edges: Edges, m: Tensor, shift: Tensor | None, weight: Tensor | None, typed: bool
) -> None:
    """With the gradients of an activation's parameters."""
    sorted_edges = sort_edges(*edges)
    edge_type = torch.randint(NUM_TYPES, (edges.edge_index.size(1),)) if typed else None
    others = {"edge_shift": shift, "edge_weight": weight}
    given = {name: value for name, value in others.items() if value is not None}
    inputs = [m, *given.values(), *act.to(m.dtype).parameters()]

    def with_act(*tensors: Tensor) -> tuple[Tensor, dict[str, Tensor], torch.nn.Module]:
        mine = copy.deepcopy(act)
        for name, value in zip([n for n, _ in act.named_parameters()], tensors[1 + len(given) :], strict=True):
            delattr(mine, name)
            mine.register_parameter(name, value)
        return tensors[0], dict(zip(given, tensors[1 : 1 + len(given)], strict=True)), mine

    def fast(*tensors: Tensor) -> Tensor:
        m, values, act = with_act(*tensors)
        for name in ("edge_weight", *(() if typed else ("edge_shift",))):
            values[name] = sorted_edges.arrange(values.get(name))
        return relabel_sum(m, sorted_edges, act, edge_type=sorted_edges.arrange(edge_type), **values)

    def naive(*tensors: Tensor) -> Tensor:
        m, values, act = with_act(*tensors)
        return relabel_sum_naive(m, edges.edge_index, edges.num_targets, act, edge_type=edge_type, **values)

    assert_same_with_gradients(fast, naive, inputs)
