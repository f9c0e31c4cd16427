"""The kernel network for whole graphs: encoder, Weisfeiler-Lehman kernel layer, pooling, head."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP

from wlkernelnn.conv import WLKernelConv
from wlkernelnn.conv.kernel_conv import KernelConv
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.ops.neighbor_sum import SortedEdges, neighbor_sum, sort_edges
from wlkernelnn.ops.neighbor_sum.segments import segment_sum
from wlkernelnn.ops.wl_colours import Quotient, wl_colours, wl_quotient

from .colour_cache import ColourCache
from .encoder import CodeEncoder

logger = logging.getLogger("wlkernelnn")

TASKS = ("regression", "classification")


class GraphKernelNetwork(torch.nn.Module):
    r"""Predicts properties of graphs with discrete node and edge codes, such as molecules.

    :math:`h^{(0)} = \mathrm{relu}(W f)`, a :class:`~wlkernelnn.WLKernelConv` of :math:`h^{(0)}`, its sum or
    mean over the nodes of a graph, and a two-layer perceptron (Lei et al. 2017, sections 3.4 and 6.3).

    Args:
        node_dims: Number of values of each column of node codes.
        num_edge_types: Number of edge codes, ``None`` for graphs without.
        num_tasks: Number of targets.
        task: ``"regression"``, or ``"classification"`` (every target is 0 or 1).
        hidden_channels: Width of everything.
        num_iterations: Weisfeiler-Lehman iterations: with walks of 2 nodes, a node sees that many edges far.
        walk_length: Number of nodes of a walk: 2 is one edge.
        decay: λ, the factor of every edge of a walk: a number from 0 to 1, ``"learned"``, or ``"gated"``
            (computed from the edge and its two nodes).
        readout: What is read of the iterations: their ``"sum"``, the ``"last"`` one, or ``"cat"`` (side by
            side; hidden_channels must be divisible by num_iterations).
        share_walk_weights: One set of walk weights and gates for all iterations instead of one each.
        all_lengths: Count walks of up to walk_length nodes, so that single nodes count, not only those of
            exactly walk_length.
        gate_scale: Factor of a gated decay; the authors' release uses 10.
        pooling: ``"sum"`` or ``"mean"`` over the nodes of a graph.
        norm: Layer normalisation of a graph's vector before the head.
        dropout: Probability that a hidden value of the head is dropped.
        quotient: Compute every Weisfeiler-Lehman colour of a batch once instead of every node: exact,
            gradients included. ``"auto"`` where it can be done at no great cost, ``True`` or ``False``.

    Shapes:
        - input: a batch with ``x [N, len(node_dims)]``, ``edge_index [2, E]``, ``edge_type [E]``,
          ``batch [N]`` and ``ptr [B+1]``; or a single graph, which has neither of the last two
        - output: ``[B, num_tasks]``: regression in the unit of the targets, classification as logits

    Raises:
        ValueError: An argument is out of its range.
    """

    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        node_dims: Sequence[int],
        num_edge_types: int | None = None,
        num_tasks: int = 1,
        task: str = "regression",
        hidden_channels: int = 176,
        num_iterations: int = 4,
        walk_length: int = 2,
        decay: float | str = "gated",
        readout: str = "last",
        share_walk_weights: bool = True,
        all_lengths: bool = True,
        gate_scale: float = 1.0,
        pooling: str = "sum",
        norm: bool = True,
        dropout: float = 0.0,
        quotient: bool | str = "auto",
    ) -> None:
        #: The arguments: what makes the same network again, kept in checkpoints beside the weights.
        config: dict[str, Any] = {k: v for k, v in locals().items() if k not in ("self", "__class__")}
        super().__init__()
        self.config = config | {"node_dims": list(node_dims)}
        if task not in TASKS:
            raise ValueError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
        if pooling not in ("sum", "mean"):
            raise ValueError(f'pooling must be "sum" or "mean", got {pooling!r}')
        for name, size in (("num_tasks", num_tasks), ("hidden_channels", hidden_channels)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, got {size}")
        if quotient not in ("auto", True, False):
            raise ValueError(f'quotient must be "auto", True or False, got {quotient!r}')
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        self.task = task
        self.pooling = pooling
        self.quotient = quotient
        #: Iterations after which colours decide a state: what :class:`PackedLoader` is to give, or ``None``.
        self.quotient_depth = num_iterations + walk_length - 2 if quotient else None
        self.encoder = CodeEncoder(node_dims, hidden_channels)
        self.conv = WLKernelConv(
            hidden_channels,
            hidden_channels,
            num_iterations=num_iterations,
            walk_length=walk_length,
            decay=decay,
            num_edge_types=num_edge_types,
            readout=readout,
            share_walk_weights=share_walk_weights,
            all_lengths=all_lengths,
            gate_scale=gate_scale,
        )
        self.norm = torch.nn.LayerNorm(hidden_channels) if norm else torch.nn.Identity()
        self.head = MLP([hidden_channels, hidden_channels, num_tasks], dropout=[dropout, 0.0], norm=None)
        self.register_buffer("target_mean", torch.zeros(num_tasks))
        self.register_buffer("target_std", torch.ones(num_tasks))

    @classmethod
    def from_data(cls, data: PackedGraphs, **kwargs: Any) -> GraphKernelNetwork:
        """A network for a data set: sizes, task and the scaling of targets come from ``data``.

        Give the training part (``data[data.split_idx["train"]]``), so that scaling sees nothing else.

        Args:
            data: The graphs, with targets.
            **kwargs: Any other argument of the class.

        Raises:
            ValueError: ``data`` has no targets, or does not say how many values its node codes have.
        """
        about = data.description
        if data.num_tasks == 0:
            raise ValueError(f"data set {about.name!r} has no targets to size a network from")
        if not about.node_dims:
            raise ValueError(f"data set {about.name!r}: its description has no node_dims")
        net = cls(
            about.node_dims,
            about.num_edge_types or None,
            data.num_tasks,
            about.task or "regression",
            **kwargs,
        )
        if net.task == "regression":
            net.scale_targets(data.y)
        return net

    def scale_targets(self, y: Tensor) -> None:
        """Take mean and standard deviation of targets ``[G, tasks]`` (NaN = missing) into the network."""
        y = y.double()
        mean = y.nanmean(0).nan_to_num(0.0)
        std = ((y - mean) ** 2).nanmean(0).sqrt().nan_to_num(0.0)
        self.target_mean.copy_(mean)
        # Equal targets differ from their mean by rounding: that is no scale.
        self.target_std.copy_(torch.where(std > 1e-6 * mean.abs(), std, 1.0))

    def reset_parameters(self) -> None:
        self.encoder.reset_parameters()
        self.conv.reset_parameters()
        if isinstance(self.norm, torch.nn.LayerNorm):
            self.norm.reset_parameters()
        self.head.reset_parameters()

    def embed(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        """The vector of every graph before the head, ``[B, hidden_channels]``.

        Args:
            batch: See the class.
            cache: Where states of colours are kept from batch to batch; on the CPU, without gradients.

        Raises:
            ValueError: A cache where gradients are wanted.
        """
        if cache is not None and torch.is_grad_enabled():
            raise ValueError("states from a cache have no gradients: call under torch.no_grad()")
        if "ptr" not in batch:
            batch = Batch.from_data_list([batch])
        quotient = self._quotient_of(batch)
        if quotient is None:
            h = self.encoder(batch.x).relu()
            edge_type = batch.edge_type if self.conv.num_edge_types is not None else None
            h = self.conv(h, batch.edge_index, edge_type=edge_type)
            pooled = segment_sum(h, batch.ptr, batch.batch)
        else:
            colour = quotient.colour
            if cache is None or not batch.x.is_cpu:
                h = self._states(batch.x.index_select(0, quotient.first), quotient)
            else:
                weights = chain(self.encoder.parameters(), self.conv.parameters())
                h, row = cache.states(batch.x, quotient, self._states, weights)
                colour = row.index_select(0, colour)
            members = SortedEdges(colour, quotient.graph, quotient.indptr, h.size(0), None)
            pooled = neighbor_sum(h, members, quotient.multiplicity)
        if self.pooling == "mean":
            pooled = pooled / batch.ptr.diff().clamp(min=1).unsqueeze(1)
        return self.norm(pooled)

    def _states(self, codes: Tensor, quotient: Quotient) -> Tensor:
        """States of a quotient's last colours, from the codes of its first ones."""
        return self.conv(self.encoder(codes).relu(), quotient)

    def _quotient_of(self, batch: Data) -> Quotient | None:
        """The batch by its colours: as the loader gave it, or made here; ``None`` to go by nodes."""
        # A compiler follows neither the making of a quotient nor the log.
        if self.quotient is False or torch.compiler.is_compiling():
            return None
        given = batch.get("quotient")
        if given is not None and given.depth < cast(int, self.quotient_depth):
            given = None
        if reason := self._why_by_nodes(batch, given is not None):
            logger.debug(f"GraphKernelNetwork computes every node, not every colour once: {reason}")
            return None
        return self._made_quotient(batch) if given is None else given

    def _why_by_nodes(self, batch: Data, given: bool) -> str:
        """A reason not to go by colours, or ``""``."""
        if self.conv.watched or any(cast(KernelConv, walk).watched for walk in self.conv.walks):
            return "somebody watches single messages of the layer"
        if given:
            return ""
        if not batch.x.is_cpu and self.quotient == "auto":
            return "the batch is not on the CPU and has no quotient, which PackedLoader can give"
        if math.prod(self.encoder.dims) >= 2**63:
            return "node codes have more than 2⁶³ combinations"
        return ""

    def _made_quotient(self, batch: Data) -> Quotient:
        self.encoder.check(batch.x)
        num_nodes, depth = batch.x.size(0), cast(int, self.quotient_depth)
        edges = sort_edges(batch.edge_index, num_nodes, num_nodes)
        typed = self.conv.num_edge_types is not None
        edge_type = edges.arrange(batch.edge_type) if typed else torch.zeros_like(edges.source)
        assert edge_type is not None
        # One integer for a row of codes: its digits in mixed radix.
        strides = np.cumprod([1, *self.encoder.dims[:-1]], dtype=np.int64)
        label = batch.x.cpu().numpy() @ strides
        source, target, types = (value.cpu().numpy() for value in (edges.source, edges.target, edge_type))
        quotient = wl_quotient(
            wl_colours(label, source, target, depth, types),
            source,
            edges.indptr.cpu().numpy(),
            types,
            batch.batch.cpu().numpy(),
            batch.ptr.numel() - 1,
        )
        return quotient if batch.x.is_cpu else Data(quotient=quotient).to(batch.x.device).quotient

    def forward(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        out = self.head(self.embed(batch, cache))
        return out * self.target_std + self.target_mean if self.task == "regression" else out

    def predict(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        """Values in the unit of the targets, or probabilities of class 1: ``[B, num_tasks]``."""
        out = self(batch, cache)
        return out if self.task == "regression" else out.sigmoid()
