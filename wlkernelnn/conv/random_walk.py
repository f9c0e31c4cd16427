"""The random walk kernel as a layer."""

from __future__ import annotations

import torch
from torch import Tensor

from .graph import Graph
from .kernel_conv import Features
from .walk import WalkConv


class RandomWalkKernelConv(WalkConv):
    r"""The random walk kernel network of `"Deriving Neural Architectures from Sequence and Graph Kernels"
    <https://arxiv.org/abs/1705.09037>`_ (Lei et al. 2017), eq. (6) and (8).

    .. math::
        c_1[v] = W^{(1)} f_v \qquad
        c_j[v] = \lambda \sum_{u \in N(v)} \sigma(c_{j-1}[u]) \circ W^{(j)} f_v \qquad
        \mathrm{out}[v] = c_n[v]

    With σ the identity, ∘ the product and a constant λ, the sum of channel k over all nodes is the random
    walk kernel between the graph and the path whose i-th node carries row k of :math:`W^{(i)}` (theorem 3).
    A node without neighbours then has output 0, unless ``all_lengths``.

    Args:
        in_channels: Width of the node features, −1 for lazy, or a pair for a bipartite graph.
        out_channels: Number of reference walks.
        walk_length: Number n of NODES of a walk (n = 2 is one hop).
        decay: λ: a float in [0, 1], ``"learned"`` (a vector), or ``"gated"``, per edge:
            :math:`\lambda_{uv} = \mathrm{sigmoid}(U_s f_u + U_t f_v + U_e e_{uv} + b)`, inside the sum.
        compose: ∘, ``"mul"`` or ``"add"``.
        act: σ, not in place; ``None`` is the identity.
        num_edge_types: Edges carry codes in [0, num_edge_types), passed as ``edge_type``.
        edge_dim: Edges carry floats, passed as ``edge_attr [E, edge_dim]``.
        all_lengths: Sum :math:`c_1 + … + c_n`, walks of up to n nodes, so that single nodes count.
        gate_scale: Factor of a gated λ; the authors' release uses 10.
        walks_only: :math:`c_j[v] = 0` where no walk of j nodes ends in v (the paper's appendix E); with
            ``compose="mul"`` and the identity this is so anyway.

    Shapes:
        - input: ``x [N, in_channels]`` (or a pair), ``edge_index [2, E]`` source above target, and
          ``edge_attr [E, edge_dim]`` or ``edge_type [E]``, and ``edge_weight [E]``, if any
        - output: ``[N, out_channels]`` (bipartite: of the target nodes)

    Raises:
        ValueError: An argument is out of its range, or a bipartite graph meets walk_length ≠ 2.
        IndexError: An edge joins nodes that are not there, or is of an unknown type.

    The weights :math:`W^{(j)}` are ``lins[j - 1].weight [out_channels, in_channels]``.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        walk_length: int = 2,
        decay: float | str = 1.0,
        compose: str = "mul",
        act: str | torch.nn.Module | None = None,
        num_edge_types: int | None = None,
        edge_dim: int | None = None,
        all_lengths: bool = False,
        gate_scale: float = 1.0,
        walks_only: bool = False,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            walk_length=walk_length,
            decay=decay,
            compose=compose,
            act=act,
            num_edge_types=num_edge_types,
            edge_dim=edge_dim,
            gate_scale=gate_scale,
            walks_only=walks_only,
        )
        if all_lengths and isinstance(in_channels, tuple):
            raise ValueError(
                f"all_lengths needs one kind of nodes, got in_channels={in_channels}: walks of one node "
                "start from W of the source nodes; give all_lengths=False"
            )
        self.all_lengths = all_lengths

    def outputs(self, x: Features, graph: Graph) -> Tensor:
        if self.all_lengths and isinstance(x, tuple):
            raise ValueError(
                "all_lengths needs one kind of nodes, got a pair of features (a bipartite graph); "
                "give all_lengths=False"
            )
        projections, last = self.project(x), self.walk_length - 1

        def of(graph: Graph) -> Tensor:
            states = self.walk(projections, graph)
            if not self.all_lengths:
                return states[last]
            out = states[0]
            for level, state in enumerate(states[1:]):
                out = graph.lift(out, level, level + 1) + state
            return out

        return graph.lift(graph.levels(0, last).by_rows(of), last)
