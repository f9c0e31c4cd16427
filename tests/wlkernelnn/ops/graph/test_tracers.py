"""Every op under everything in PyTorch that records or transforms operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.checks.tracers import COMPILERS, QUIET, TRACERS
from wlkernelnn.ops.graph import gated_sum, message_sum, neighbor_sum, relabel_sum, segment_sum, sort_edges

pytestmark = QUIET

N, E, K, TYPES = 5, 12, 3, 2
INDPTR, SEGMENT = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 0, 2, 2, 2])


def _gated(x: Tensor, edge_index: Tensor, weight: Tensor, table: Tensor, edge_type: Tensor) -> Tensor:
    edges = sort_edges(edge_index, N, N)
    types, weight = edges.arrange(edge_type), edges.arrange(weight)
    return gated_sum(x, edges, (x.cos(), x.sin()), table, 2 * table, types, weight, gate_scale=3.0)


def _relabelled(x: Tensor, edge_index: Tensor, weight: Tensor, table: Tensor, edge_type: Tensor) -> Tensor:
    edges = sort_edges(edge_index, N, N)
    types, weight = edges.arrange(edge_type), edges.arrange(weight)
    return relabel_sum(x, edges, torch.nn.Tanh(), table, types, weight)


def _any_message(x: Tensor, edge_index: Tensor, weight: Tensor, table: Tensor, edge_type: Tensor) -> Tensor:
    edges = sort_edges(edge_index, N, N)
    types = edges.arrange(edge_type)
    given = {"source": {"x": x}, "target": {"y": x.sin()}, "table": {"t": table}, "edge_type": types}
    return message_sum(lambda x, y, t: x * y + t, edges, **given)  # type: ignore[arg-type]


def _segments(x: Tensor, edge_index: Tensor, weight: Tensor, table: Tensor, edge_type: Tensor) -> Tensor:
    return segment_sum(x, INDPTR, SEGMENT)


OPS: dict[str, Callable[..., Tensor]] = {
    "neighbor_sum": lambda x, edge_index, *_: neighbor_sum(x, sort_edges(edge_index, N, N)),
    "weighted neighbor_sum": lambda x, edge_index, weight, *_: neighbor_sum(
        x, edges := sort_edges(edge_index, N, N), edges.arrange(weight)
    ),
    "gated_sum": _gated,
    "relabel_sum": _relabelled,
    "message_sum": _any_message,
    "segment_sum": _segments,
}


class Op(torch.nn.Module):
    """An op with a trained table, and with trained weights of edges."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.op = OPS[name]
        self.table = torch.nn.Parameter(torch.randn(TYPES, K, dtype=torch.float64))
        self.weight = torch.nn.Parameter(torch.rand(E, dtype=torch.float64))

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        return self.op(x, edge_index, self.weight, self.table, edge_type)


def arguments() -> tuple[Tensor, ...]:
    x = torch.randn(N, K, dtype=torch.float64)
    return x, torch.randint(N, (2, E)), torch.randint(TYPES, (E,))


@pytest.mark.halved
@pytest.mark.parametrize("tracer", TRACERS)
@pytest.mark.parametrize("op", OPS)
def test_tracers(op: str, tracer: str) -> None:
    TRACERS[tracer](Op(op), arguments(), arguments())


@pytest.mark.parametrize(
    "compiler", ["strict export", pytest.param("compiled transforms", marks=pytest.mark.slow)]
)
def test_compilers(compiler: str) -> None:
    """Several ops in one, so that a compiler starts once."""
    ops = torch.nn.ModuleList(map(Op, ("neighbor_sum", "gated_sum", "relabel_sum", "segment_sum")))

    class Several(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ops = ops

        def forward(self, *args: Tensor) -> Tensor:
            return torch.cat([op(*args) for op in self.ops])

    COMPILERS[compiler](Several(), arguments(), arguments())
