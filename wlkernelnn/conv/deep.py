"""The deep graph kernel as a layer."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from .graph import Graph
from .kernel_conv import Features
from .walk import WalkConv


class DeepKernelConv(WalkConv):
    r"""One layer of the deep graph kernel network of `"Deriving Neural Architectures from Sequence and Graph
    Kernels" <https://arxiv.org/abs/1705.09037>`_ (Lei et al. 2017), section 3.3.

    .. math::
        c_1[v] = W^{(1)} h_v \qquad
        c_j[v] = W^{(j)} h_v \circ \lambda \sum_{u \in N(v)} \sigma(c_{j-1}[u]) \qquad
        \mathrm{out}[v] = \sigma(U c_n[v])

    With n = 2 and ∘ = + it is eq. (9) with :math:`U_1 = U W^{(2)}`, :math:`U_2 = \lambda U` and
    :math:`V = W^{(1)}`. Stack several for a deep kernel (theorem 4).

    Args:
        in_channels: Width of the node features, −1 for lazy, or a pair for a bipartite graph.
        out_channels: Width of the walk states and of the result.
        walk_length: Number n of NODES of a walk (n = 2 is one hop).
        decay: λ: a float in [0, 1], ``"learned"`` or ``"gated"``; see :class:`RandomWalkKernelConv`.
        compose: ∘, ``"mul"`` or ``"add"``.
        act: σ, elementwise and not in place; ``None`` is the identity.
        num_edge_types: Edges carry codes in [0, num_edge_types), passed as ``edge_type``.
        edge_dim: Edges carry floats, passed as ``edge_attr [E, edge_dim]``.
        gate_scale: Factor of a gated λ; the authors' release uses 10.
        walks_only: :math:`c_j[v] = 0` where no walk of j nodes ends in v: the form of the paper's appendix E.

    Shapes:
        - input: ``x [N, in_channels]`` (or a pair), ``edge_index [2, E]`` source above target, and
          ``edge_attr [E, edge_dim]`` or ``edge_type [E]``, and ``edge_weight [E]``, if any
        - output: ``[N, out_channels]`` (bipartite: of the target nodes)

    Raises:
        ValueError: An argument is out of its range, or a bipartite graph meets walk_length ≠ 2.
        IndexError: An edge joins nodes that are not there, or is of an unknown type.

    The weights are ``lins[j - 1].weight`` :math:`= W^{(j)}` and ``lin_out.weight`` :math:`= U`.
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        walk_length: int = 2,
        decay: float | str = 1.0,
        compose: str = "mul",
        act: str | torch.nn.Module | None = "relu",
        num_edge_types: int | None = None,
        edge_dim: int | None = None,
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
        self.lin_out = Linear(out_channels, out_channels, bias=False)

    def outputs(self, x: Features, graph: Graph) -> Tensor:
        projections, last = self.project(x), self.walk_length - 1

        def of(graph: Graph) -> Tensor:
            return self.act(self.lin_out(self.walk(projections, graph)[-1]))

        return graph.lift(graph.levels(0, last).by_rows(of), last)
