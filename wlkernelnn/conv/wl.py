"""The Weisfeiler-Lehman kernel as a layer."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.parameter import UninitializedParameter, is_lazy
from torch_geometric.nn import Linear

from wlkernelnn.blocks.activation import activation
from wlkernelnn.blocks.shown import shown
from wlkernelnn.ops.graph import SortedEdges, relabel_message, relabel_sum
from wlkernelnn.utils.checks import check_count, check_one_of

from .edge_map import EdgeMap
from .graph import Graph
from .kernel_conv import Features, KernelConv
from .random_walk import RandomWalkKernelConv


class WLKernelConv(KernelConv):
    r"""The Weisfeiler-Lehman kernel network of `"Deriving Neural Architectures from Sequence and Graph
    Kernels" <https://arxiv.org/abs/1705.09037>`_ (Lei et al. 2017), section 3.4: in every iteration the
    random walk kernel of the graph as it is labelled now, then new labels.

    .. math::
        c_1^{(l)}[v] &= W^{(l,1)} h_v^{(l-1)} \qquad
        c_j^{(l)}[v] = \lambda \sum_{u \in N(v)} c_{j-1}^{(l)}[u] \odot W^{(l,j)} h_v^{(l-1)}

        h_v^{(l)} &= \sigma\Big( U_1 h_v^{(l-1)} + U_2 \sum_{u \in N(v)}
        \sigma( V h_u^{(l-1)} + V_e e_{uv} ) \Big)

        \mathrm{out}[v] &= \sum_{l=1}^{L} c_n^{(l)}[v]

    U and V are shared by the iterations (with biases; the walk weights have none), which keeps the labels at
    the width of the input. The last relabelling would feed nothing and is left out.

    Args:
        in_channels: Width of the node features :math:`h^{(0)}` and of all labels; −1 for lazy (the
            first run gives all parameters their shapes); a pair for a bipartite graph.
        out_channels: Number of reference walks.
        num_iterations: L.
        walk_length: Number n of NODES of a walk (n = 2 is one hop).
        decay: λ: a float in [0, 1], ``"learned"`` or ``"gated"``; see :class:`RandomWalkKernelConv`.
        num_edge_types: Edges carry codes in [0, num_edge_types), passed as ``edge_type``.
        edge_dim: Edges carry floats, passed as ``edge_attr [E, edge_dim]``.
        act: σ of the relabelling, elementwise and not in place.
        readout: ``"sum"`` (the paper), ``"last"``, or ``"cat"`` (out_channels divisible by num_iterations).
        share_walk_weights: One set of walk weights, :math:`W_e` and gate for all iterations (the authors'
            release, with readout ``"last"``) instead of one each (the paper).
        all_lengths: Count walks of up to n nodes, so that single nodes count.
        gate_scale: Factor of a gated λ; the authors' release uses 10.

    Shapes:
        - input: ``x [N, in_channels]``, ``edge_index [2, E]`` source above target, and
          ``edge_attr [E, edge_dim]`` or ``edge_type [E]``, and ``edge_weight [E]`` (which weighs the walks
          and the relabelling), if any
        - output: ``[N, out_channels]``

    Raises:
        ValueError: An argument is out of its range, or a bipartite graph meets anything but walks of 2 nodes
            in 1 iteration.
        IndexError: An edge joins nodes that are not there, or is of an unknown type.

    The walks are ``walks[l - 1]``, layers of :class:`RandomWalkKernelConv` (a single one if shared).
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_iterations: int = 4,
        walk_length: int = 2,
        decay: float | str = "gated",
        num_edge_types: int | None = None,
        edge_dim: int | None = None,
        act: str | torch.nn.Module | None = "relu",
        readout: str = "sum",
        share_walk_weights: bool = False,
        all_lengths: bool = False,
        gate_scale: float = 1.0,
    ) -> None:
        super().__init__(in_channels, out_channels, num_edge_types, edge_dim)
        num_iterations = check_count("num_iterations", num_iterations)
        check_one_of("readout", readout, ("sum", "last", "cat"))
        if readout == "cat" and out_channels % num_iterations:
            raise ValueError(
                f'readout="cat" splits out_channels over the iterations: {out_channels} is not divisible '
                f"by num_iterations={num_iterations}"
            )
        if isinstance(in_channels, tuple) and num_iterations != 1:
            raise ValueError(f"a bipartite graph has no relabelling, got num_iterations={num_iterations}")
        self.num_iterations = num_iterations
        self.readout = readout
        self.share_walk_weights = share_walk_weights
        self.act = activation(act)
        # Only the last walk is read with readout="last".
        num_walks = 1 if share_walk_weights or readout == "last" else num_iterations
        self.walks = torch.nn.ModuleList(
            RandomWalkKernelConv(
                in_channels,
                out_channels // num_iterations if readout == "cat" else out_channels,
                walk_length,
                decay,
                num_edge_types=num_edge_types,
                edge_dim=edge_dim,
                all_lengths=all_lengths,
                gate_scale=gate_scale,
            )
            for _ in range(num_walks)
        )
        self.lin_self: Linear | None = None  # U_1
        self.lin_neighbors: Linear | None = None  # U_2
        self.lin_message: Linear | None = None  # V
        self.edge_message: EdgeMap | None = None  # V_e
        if not isinstance(in_channels, tuple) and num_iterations > 1:
            for name, module in self._relabelling(max(in_channels, 1)).items():
                setattr(self, name, _Unsized(module) if in_channels == -1 and module is not None else module)
        if in_channels == -1:
            self.register_load_state_dict_pre_hook(_size_from_state_dict)

    @property
    def num_steps(self) -> int:
        return self.num_iterations - 1 + cast(RandomWalkKernelConv, self.walks[0]).num_steps

    def _relabelling(self, channels: int) -> dict[str, torch.nn.Module | None]:
        return {
            "lin_self": Linear(channels, channels),
            "lin_neighbors": Linear(channels, channels, bias=False),
            "lin_message": Linear(channels, channels),
            "edge_message": self.edge_map(channels),
        }

    def _size_relabelling(self, channels: int) -> None:
        """Give U and V of a lazy layer their shapes, now that its width is known."""
        self.in_channels = channels
        if self.num_iterations > 1:
            for name, module in self._relabelling(channels).items():
                if module is not None:
                    setattr(self, name, getattr(self, name).sized_as(module))

    def outputs(self, x: Features, graph: Graph) -> Tensor:
        if self.in_channels == -1 and isinstance(x, Tensor):
            self._size_relabelling(x.size(-1))
        last = cast(RandomWalkKernelConv, self.walks[0]).num_steps  # the level of a walk's last node
        h, read = x, None
        for iteration in range(self.num_iterations):
            if iteration > 0:
                h = self._relabel(h, graph)
                if read is not None:
                    # Level by level: there are fewer rows below than at the top.
                    read = graph.lift(read, last, last + 1)
                graph = graph.levels(1)
            if self.readout != "last" or iteration == self.num_iterations - 1:
                out = self.walks[iteration % len(self.walks)](h, graph.levels(0, last))
                if read is not None:
                    out = torch.cat([read, out], dim=-1) if self.readout == "cat" else read + out
                read = out
        assert read is not None
        return graph.lift(read, last)

    def relabel(self, h: Tensor, *edges: Any, **named: Any) -> Tensor:
        """One relabelling, eq. (10) with edge features: ``[N, in_channels]`` → ``[N, in_channels]``.

        The edges are given as to the layer itself.

        Raises:
            ValueError: The layer has one iteration, which never relabels.
        """
        if self.num_iterations == 1:
            raise ValueError("a layer with num_iterations=1 never relabels: it has no U and V")
        graph = self.graph(h, *edges, **named)
        if self.in_channels == -1:
            self._size_relabelling(h.size(-1))
        return self._relabel(h, graph)

    def _relabel(self, h: Features, graph: Graph) -> Tensor:
        if isinstance(h, tuple):
            given = f"num_iterations={self.num_iterations}"
            raise ValueError(f"a bipartite graph has no relabelling, this layer has {given}")
        assert self.lin_self is not None
        assert self.lin_neighbors is not None
        assert self.lin_message is not None
        total = self.sum(graph.step(0), m=self.lin_message(h), edge_shift=self.edge_message)
        return self.act(graph.lift(self.lin_self(h), 0, 1) + self.lin_neighbors(total))

    def message(
        self, m_j: Tensor, edge_shift: Tensor | None = None, edge_weight: Tensor | None = None
    ) -> Tensor:
        return relabel_message(m_j, edge_shift, edge_weight, act=self.act)

    def fast_sum(
        self,
        edges: SortedEdges,
        edge_type: Tensor | None,
        edge_weight: Tensor | None,
        *,
        m: Tensor,
        edge_shift: Tensor | None = None,
    ) -> Tensor:
        return relabel_sum(m, edges, self.act, edge_shift, edge_type, edge_weight)

    def __repr__(self) -> str:
        walk = cast(RandomWalkKernelConv, self.walks[0])
        return shown(
            self,
            "num_iterations",
            "walk_length",
            "decay",
            walk_length=walk.walk_length,
            decay=walk.decay.decay,
            all_lengths=walk.all_lengths,
            gate_scale=walk.decay.gate_scale,
        )


class _Unsized(torch.nn.Module):
    """The parameters of a module whose width is not known yet: an optimizer may have them already."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        for i, _ in enumerate(module.parameters()):
            self.register_parameter(f"value_{i}", cast(torch.nn.Parameter, UninitializedParameter()))

    def sized_as(self, module: torch.nn.Module) -> torch.nn.Module:
        """The module, with these parameters in the place of its own."""
        for (name, drawn), value in zip([*module.named_parameters()], self.parameters(), strict=True):
            assert isinstance(value, UninitializedParameter)
            value.materialize(drawn.shape)
            value.data.copy_(drawn)
            owner, _, last = name.rpartition(".")
            setattr(module.get_submodule(owner), last, value)
        return module

    # Without shapes there is nothing to keep.
    def _save_to_state_dict(self, *args: Any) -> None:
        pass

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        *_, unexpected_keys, _ = args
        unexpected_keys += [key for key in state_dict if key.startswith(prefix)]


def _size_from_state_dict(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    """A lazy layer that has not run yet learns its width from the weights it is given."""
    assert isinstance(module, WLKernelConv)
    weight = state_dict.get(f"{prefix}walks.0.lins.0.weight")
    if module.in_channels == -1 and weight is not None and not is_lazy(weight):
        module._size_relabelling(weight.size(-1))
