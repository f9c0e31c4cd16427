"""Deep graph kernel layers one upon another, with what makes deep stacks trainable."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.inits import reset

from wlkernelnn.conv import DeepKernelConv
from wlkernelnn.ops.colours import Quotient
from wlkernelnn.utils.checks import check_count, check_dropout, check_one_of

from .virtual_node import VirtualNode

JUMPING = ("last", "sum", "cat")


class KernelStack(torch.nn.Module):
    r"""A stack of :class:`~wlkernelnn.DeepKernelConv` (Lei et al. 2017, eq. 9), normalised and residual.

    .. math::
        h^{(l)} = h^{(l-1)} + \mathrm{dropout}(\mathrm{conv}_l(\mathrm{norm}(h^{(l-1)})))

    Args:
        channels: Width of all states.
        num_layers: Number of layers L.
        walk_length, decay, compose, num_edge_types: As of :class:`~wlkernelnn.DeepKernelConv`.
        dropout: Probability that an entry of a layer's result is dropped.
        jumping: What is read (Xu et al. 2018, jumping knowledge): the ``"last"`` states, the ``"sum"`` of all
            :math:`h^{(0)} … h^{(L)}`, or all side by side, ``"cat"``.
        virtual_node: A :class:`~wlkernelnn.models.virtual_node.VirtualNode` before every layer but the first.
        residual: Whether :math:`h^{(l-1)}` is added.
        layer_norm: Whether there is a norm, over the channels.

    Shapes:
        - input: ``h [N, channels]``, ``edge_index [2, E]``, ``edge_type [E]``, and with a virtual node ``ptr
          [B+1]`` and ``batch [N]``; or rows of the first colours and a
          :class:`~wlkernelnn.ops.colours.Quotient`, whose last colours have the result's rows
        - output: ``[N, out_channels]``

    Raises:
        ValueError: An argument is out of its range, or a virtual node meets a quotient: it knows the whole
            graph, not only what colours know.
    """

    def __init__(
        self,
        channels: int,
        num_layers: int = 4,
        walk_length: int = 2,
        decay: float | str = "gated",
        compose: str = "mul",
        num_edge_types: int | None = None,
        dropout: float = 0.0,
        jumping: str = "last",
        virtual_node: bool = False,
        residual: bool = True,
        layer_norm: bool = True,
    ) -> None:
        super().__init__()
        num_layers = check_count("num_layers", num_layers)
        check_one_of("jumping", jumping, JUMPING)
        check_dropout(dropout, "dropout of layers")
        self.jumping = jumping
        self.convs = torch.nn.ModuleList(
            DeepKernelConv(channels, channels, walk_length, decay, compose, num_edge_types=num_edge_types)
            for _ in range(num_layers)
        )
        self.norms = torch.nn.ModuleList(
            torch.nn.LayerNorm(channels) if layer_norm else torch.nn.Identity() for _ in range(num_layers)
        )
        nodes = num_layers - 1 if virtual_node else 0
        self.virtual_nodes = torch.nn.ModuleList(VirtualNode(channels) for _ in range(nodes))
        self.dropout = torch.nn.Dropout(dropout)
        self.virtual_node = virtual_node
        self.residual = residual
        #: How many edges far a state sees, if there is no virtual node.
        self.num_steps = num_layers * (walk_length - 1)
        self.out_channels = channels * (num_layers + 1) if jumping == "cat" else channels

    def reset_parameters(self) -> None:
        for module in (self.convs, self.norms, self.virtual_nodes):
            reset(module)

    def forward(
        self,
        h: Tensor,
        edge_index: Tensor | Quotient,
        edge_type: Tensor | None = None,
        ptr: Tensor | None = None,
        batch: Tensor | None = None,
    ) -> Tensor:
        if self.virtual_node and (ptr is None or batch is None):
            raise ValueError("a stack with a virtual node needs ptr and batch, and goes by nodes")
        first = self.convs[0]
        assert isinstance(first, DeepKernelConv)
        graph, length = first.graph(h, edge_index, None, edge_type, None), first.walk_length - 1
        g = None if ptr is None else h.new_zeros(ptr.numel() - 1, h.size(1))
        read = h
        for layer, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
            if layer > 0 and self.virtual_node:
                h, g = self.virtual_nodes[layer - 1](h, g, ptr, batch)
            # Of a quotient, a layer's result has rows of a higher level than what it was given.
            new = self.dropout(conv(norm(h), graph.levels(0, length)))
            h = graph.lift(h, 0, length) + new if self.residual else new
            if self.jumping == "last":
                read = h
            else:
                read = graph.lift(read, 0, length)
                read = read + h if self.jumping == "sum" else torch.cat([read, h], dim=1)
            graph = graph.levels(length)
        return graph.lift(read, 0)
