"""The walk recursion: states that are moved along edges, decayed, and combined with a new projection."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from wlkernelnn.blocks.activation import activation
from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.blocks.decay import Decay
from wlkernelnn.blocks.shown import shown
from wlkernelnn.ops.graph import SortedEdges, gated_message, gated_sum, neighbor_sum_naive
from wlkernelnn.utils.checks import check_count, check_one_of

from .edge_map import EdgeMap
from .graph import Graph
from .kernel_conv import Features, KernelConv


class Projections(NamedTuple):
    """What a walk reads of the nodes.

    Attributes:
        parts: :math:`W^{(j)} f`, j = 1 … n, ``[N, out_channels]`` each.
        gates: What edges of a gated decay add up of their two ends.
    """

    parts: list[Tensor]
    gates: tuple[Tensor, ...] | None


class WalkConv(KernelConv):
    r"""States of walks of up to n nodes (Lei et al. 2017, eq. 6 and 8).

    .. math::
        c_1[v] = W^{(1)} f_v \qquad
        c_j[v] = \lambda \sum_{u \in N(v)} \sigma(c_{j-1}[u]) \circ W^{(j)} f_v

    The message from u to v is
    :math:`w_{uv} \, \lambda_{uv} \odot \sigma(c_{j-1}[u]) \odot W_e^{(j)} e_{uv}`, of whichever factors are
    present. The arguments are those of the layers that are made of it.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        walk_length: int,
        decay: float | str,
        compose: str,
        act: str | torch.nn.Module | None,
        num_edge_types: int | None,
        edge_dim: int | None,
        gate_scale: float,
        walks_only: bool,
    ) -> None:
        super().__init__(in_channels, out_channels, num_edge_types, edge_dim)
        walk_length = check_count("walk_length", walk_length)
        check_one_of("compose", compose, COMPOSE)
        if isinstance(in_channels, tuple) and walk_length != 2:
            raise ValueError(f"a bipartite graph has only walks of 2 nodes, got walk_length={walk_length}")
        self.walk_length = walk_length
        self.compose = compose
        self.walks_only = walks_only
        self.act = activation(act)
        source, target = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        self.lins = torch.nn.ModuleList(
            Linear(source if j == 0 else target, out_channels, bias=False) for j in range(walk_length)
        )
        self.decay = Decay(decay, out_channels, (source, target), gate_scale)
        self.edge_gate = self.edge_map(out_channels) if self.decay.gated else None
        # Factor of the step to node j = 2 … n.
        self.edge_factors = torch.nn.ModuleList(
            filter(None, (self.edge_map(out_channels, factor=True) for _ in range(walk_length - 1)))
        )

    @property
    def num_steps(self) -> int:
        return self.walk_length - 1

    def project(self, x: Features) -> Projections:
        """All products with weights, at the nodes."""
        if isinstance(x, tuple) and self.walk_length != 2:
            raise ValueError(
                f"a bipartite graph has only walks of 2 nodes, this layer has walk_length={self.walk_length}"
            )
        source, target = x if isinstance(x, tuple) else (x, x)
        # Without a step too: a lazy gate has its widths from here.
        gates = self.decay.project(source, target) if self.decay.gated else None
        return Projections([lin(source if j == 0 else target) for j, lin in enumerate(self.lins)], gates)

    def walk(self, projections: Projections, graph: Graph) -> list[Tensor]:
        """The states :math:`c_1, …, c_n`, each ``[N, out_channels]`` (c_1 of the source nodes).

        Of a batch by its colours, :math:`c_j` has a row per colour after j − 1 iterations.
        """
        (first, *others), gates = projections
        exists = first.new_ones(first.size(0), 1) if self.walks_only else None
        states = [first]
        for j in range(1, self.walk_length):
            sent = self.act(states[-1])
            if exists is not None:
                sent = exists * sent
            total = self.sum(
                graph.step(j - 1),
                c=(sent, None),
                gate=None if gates is None else (graph.lift(gates[0], 0, j - 1), graph.lift(gates[1], 0, j)),
                edge_gate=self.edge_gate,
                edge_factor=cast(EdgeMap, self.edge_factors[j - 1]) if len(self.edge_factors) else None,
            )
            if not self.decay.gated:
                total = self.decay() * total
            new = graph.lift(others[j - 1], 0, j)
            state = COMPOSE[self.compose](total, new)
            if exists is not None:
                step = graph.step(j - 1)
                ends = neighbor_sum_naive(exists, step.edge_index, step.size[1])
                exists = (ends > 0).to(state.dtype)
                state = exists * state
            states.append(state)
        return states

    def message(
        self,
        c_j: Tensor,
        gate_j: Tensor | None = None,
        gate_i: Tensor | None = None,
        edge_gate: Tensor | None = None,
        edge_factor: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        scale = self.decay.gate_scale
        return gated_message(c_j, gate_j, gate_i, edge_gate, edge_factor, edge_weight, scale)

    def fast_sum(
        self,
        edges: SortedEdges,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        *,
        c: tuple[Tensor, None],
        gate: tuple[Tensor, Tensor] | None = None,
        edge_gate: Tensor | None = None,
        edge_factor: Tensor | None = None,
    ) -> Tensor:
        scale = self.decay.gate_scale
        return gated_sum(c[0], edges, gate, edge_gate, edge_factor, edge_type, edge_weight, scale)

    def __repr__(self) -> str:
        decay, scale = self.decay.decay, self.decay.gate_scale
        return shown(self, "walk_length", "decay", decay=decay, gate_scale=scale)
