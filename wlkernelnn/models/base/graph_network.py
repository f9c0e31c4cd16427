"""What all networks for whole graphs share: codes in, layers of a subclass, pooling, head, scaling."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MLP
from torch_geometric.nn.inits import reset

from wlkernelnn.conv.kernel_conv import is_watched
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.files.targets import kept_by_float32
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.datasets.graphs.loader import Graphs, as_packed, packed
from wlkernelnn.datasets.graphs.pyg import of_quotient, own_quotient
from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.colours import Quotient, is_of
from wlkernelnn.ops.graph import SortedEdges, neighbor_sum
from wlkernelnn.ops.graph.segments import segment_sum
from wlkernelnn.utils.checks import check_count, check_dropout, check_one_of
from wlkernelnn.utils.configured import Configured

from .batches import check_graph_x, complete, quotient_of_batch
from .codes import check_codes, check_x, packed_with_rows
from .colour_cache import ColourCache
from .encoder import CodeEncoder, FeatureEncoder
from .fingerprint import FingerprintEncoder
from .outputs import Levels, outputs_of
from .sizes import mean_and_std, sizes_of, takes, targets_of_scale

logger = logging.getLogger("wlkernelnn")


class GraphNetwork(Configured, torch.nn.Module, ABC):
    r"""Predicts properties of graphs with codes or features of nodes and codes of edges, such as molecules.

    The states of the nodes that :meth:`states` computes, their sum or mean over a graph, and a two-layer
    perceptron. Other arguments, shapes and errors are those of :class:`GraphKernelNetwork`.

    Args:
        num_steps: How many edges far a state sees: the Weisfeiler-Lehman colour after that many iterations
            decides it. ``None``: colours do not decide it.
        state_channels: Width of the states; default ``hidden_channels``.
    """

    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        node_dims: Sequence[int],
        hidden_channels: int,
        *,
        num_steps: int | None,
        state_channels: int | None = None,
        num_edge_types: int | None = None,
        num_tasks: int = 1,
        task: str = "regression",
        loss: str = "squared",
        quantiles: Sequence[float] | None = None,
        pooling: str = "sum",
        norm: bool = True,
        dropout: float = 0.0,
        num_node_values: int = 0,
        num_graph_values: int = 0,
        in_channels: int = 0,
        quotient: bool | str = False,
        edge_values: Sequence[Sequence[float]] = (),
    ) -> None:
        super().__init__()
        check_one_of("pooling", pooling, ("sum", "mean"))
        check_count("num_tasks", num_tasks, least=2 if task in SEVERAL_CLASSES else 1)
        check_count("hidden_channels", hidden_channels)
        check_count("num_node_values", num_node_values, least=0)
        check_count("num_graph_values", num_graph_values, least=0)
        check_count("in_channels", in_channels, least=0)
        if (len(node_dims) > 0) == (in_channels > 0) or (in_channels and num_node_values):
            given = f"got node_dims={list(node_dims)}, in_channels={in_channels}, {num_node_values=}"
            raise ValueError(f"x holds codes (node_dims) or float features (in_channels), {given}")
        check_dropout(dropout)
        if quotient not in ("auto", True, False):
            raise ValueError(f'quotient must be "auto", True or False, got {quotient!r}')
        if quotient is True and num_steps is None:
            raise ValueError("quotient=True: not colours decide the states of this network, but single nodes")
        self.task, self.loss, self.pooling, self.quotient = task, loss, pooling, quotient
        self.num_edge_types, self.num_tasks = num_edge_types, num_tasks
        self.num_graph_values = num_graph_values
        #: The rows of ``edge_attr`` that codes of edges stand for, where that depended on the graphs.
        self.edge_values = tuple(tuple(map(float, row)) for row in edge_values)
        if self.edge_values and len(self.edge_values) != num_edge_types:
            raise ValueError(f"edge_values has {len(self.edge_values)} rows, expected {num_edge_types=}")
        #: Iterations after which colours decide a state: what :class:`PackedLoader` is to give, or ``None``.
        self.quotient_depth = num_steps if quotient else None
        state_channels = state_channels or hidden_channels
        self.encoder: CodeEncoder | FeatureEncoder
        if in_channels:
            self.encoder = FeatureEncoder(in_channels, hidden_channels)
        else:
            self.encoder = CodeEncoder(node_dims, hidden_channels, num_node_values)
        self.norm = torch.nn.LayerNorm(state_channels) if norm else torch.nn.Identity()
        self.fingerprint: FingerprintEncoder | None = None
        if num_graph_values:
            self.fingerprint = FingerprintEncoder(num_graph_values, hidden_channels, dropout)
            state_channels += hidden_channels
        #: Width of the vectors of :meth:`embed`.
        self.embedding_channels = state_channels
        #: What the numbers of the head mean, and their loss.
        self.target = outputs_of(task, num_tasks, loss, quantiles)
        widths = [state_channels, hidden_channels, self.target.num_raw]
        self.head = MLP(widths, dropout=[dropout, 0.0], norm=None)
        self.register_buffer("target_mean", torch.zeros(self.target.num_values))
        self.register_buffer("target_std", torch.ones(self.target.num_values))

    @classmethod
    def from_data(cls, data: Graphs, **kwargs: Any) -> Self:
        """A network for a data set: sizes, task and the scaling of targets come from ``data``.

        Give the training part (``data[data.split_idx["train"]]``), so that scaling sees nothing else.

        Args:
            data: The graphs, with targets: packed, or as PyG has them (see ``PackedGraphs.from_pyg``).
            **kwargs: Any other argument of the class.

        Raises:
            TypeError: ``data`` is not a packed store nor graphs of PyG.
            ValueError: ``data`` has no targets, or does not say how many values its node codes have.
        """
        data = packed("data", data)
        net = cls(**sizes_of(cls, data), **kwargs)
        if net.task == "regression":
            net.scale_targets(targets_of_scale(data))
        if isinstance(net.target, Levels):
            net.target.fit_frequencies(data.y[:, 0])
        graph_x = data.arrays.graph_x
        if net.fingerprint is not None and graph_x.is_floating_point():
            net.fingerprint.scale(graph_x[data.index])
        if isinstance(net.encoder, FeatureEncoder):
            table, node_type = data.arrays.node_table, data.compact().arrays.node_type
            net.encoder.scale(table, node_type.long().bincount(minlength=len(table)))
        return net

    @classmethod
    def check_arguments(cls, **kwargs: Any) -> None:
        """Refuse arguments of the class, but for the sizes of the data, before there are data."""
        sizes: dict[str, Any] = {"node_dims": [1], "num_edge_types": 1}
        with torch.device("meta"):  # no weights are drawn
            cls(**sizes, **kwargs)

    def packed(self, name: str, data: Graphs) -> PackedGraphs:
        """Graphs given for this network, packed with its codes of edges.

        Args:
            name: Of the argument, for messages.
            data: Packed graphs, or a list or data set of PyG's ``Data``.

        Raises:
            TypeError: Neither.
            ValueError: A value that a store cannot keep or the network has no code for, graphs without the
                codes of nodes that it has tables for, a store whose edges have no codes or such that stand
                for others than the network's, or one with a ``transform``.
        """
        rows = self.edge_values
        graphs = packed_with_rows(name, data, rows) if rows else as_packed(name, data)
        if not isinstance(data, PackedGraphs):
            if isinstance(self.encoder, CodeEncoder) and self.encoder.column_dims != (1,):
                check_x(name, data, len(self.encoder.column_dims))
            if self.num_edge_types is None and graphs.description.num_edge_types:
                logger.warning(f"{name}: the network has no codes of edges: those of the graphs are left out")
        if not rows and self.num_edge_types is not None and graphs.arrays.source.numel():
            # Networks of one's own may drop what codes stand for.
            any_rows = not takes(type(self), "edge_values") or bool(self.config.get("edge_values"))
            check_codes(name, graphs, self.num_edge_types, any_rows)
        return graphs

    def scale_targets(self, y: Tensor) -> None:
        """Take mean and standard deviation of targets ``[G, tasks]`` (NaN = missing) into the network.

        Where float32 cannot tell the targets apart, both are float64, and so are the network's outputs.
        """
        y = y.double()
        mean, std = mean_and_std(y)
        if not kept_by_float32(y.cpu().numpy()).all():
            self._scale_in_float64()
        self.target_mean.copy_(mean)
        self.target_std.copy_(torch.where(std > 0, std, 1.0))

    def _scale_in_float64(self) -> None:
        self.target_mean, self.target_std = self.target_mean.double(), self.target_std.double()

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(f"{prefix}target_mean")
        if isinstance(stored, Tensor) and stored.dtype == torch.float64:
            self._scale_in_float64()
        super()._load_from_state_dict(state_dict, prefix, *args)

    def reset_parameters(self) -> None:
        for child in self.children():
            reset(child)

    @abstractmethod
    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        """The states of nodes, ``[N, state_channels]``, or of a quotient's last colours.

        ``codes`` are those of the nodes, or of the first colours.
        """

    def edges(self, graph: Data | Quotient) -> tuple[Tensor | Quotient, Tensor | None]:
        """What layers take beside the states: ``edge_index`` and ``edge_type``, or a quotient and nothing."""
        if isinstance(graph, Quotient):
            return graph, None
        return graph.edge_index, None if self.num_edge_types is None else graph.edge_type

    def embed(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        """The vector of every graph before the head, ``[B, state_channels]``, and its fingerprint's after it.

        Args:
            batch: See the class.
            cache: Where states of colours are kept from batch to batch; on the CPU, without gradients.

        Raises:
            ValueError: A cache where gradients are wanted, or something is missing in the batch.
        """
        if cache is not None and torch.is_grad_enabled():
            raise ValueError("states from a cache have no gradients: call under torch.no_grad()")
        if self.training or isinstance(self.encoder, FeatureEncoder):
            cache = None  # what dropout left of a state is not to be kept; keys of states are codes
        own = None if torch.compiler.is_compiling() else own_quotient(batch)
        if own is None or self.num_graph_values:
            batch = complete(batch, self.num_edge_types, self.num_graph_values)
        quotient = self._quotient_of(batch, own)
        if quotient is None:
            pooled = segment_sum(self.states(batch.x, batch), batch.ptr, batch.batch)
        else:
            colour = quotient.colour
            if cache is None or not batch.x.is_cpu:
                h = self.states(batch.x.index_select(0, quotient.first), quotient)
            else:
                h, row = cache.states(batch.x, quotient, self.states, self._weights_of_states())
                colour = row.index_select(0, colour)
            pooled = _sum_over_graphs(h, colour, quotient)
        return self._read(pooled, batch.ptr.diff(), self._of_graphs(batch))

    def embed_colours(self, batch: Data) -> Tensor:
        """The vectors of :meth:`embed`, of graphs by their colours alone.

        Args:
            batch: As :func:`~wlkernelnn.datasets.graphs.loader.store_quotient` gives it.

        Raises:
            ValueError: Features are missing, or of another width.
        """
        check_graph_x(batch, self.num_graph_values)
        quotient = batch.quotient
        h = self.states(batch.x.index_select(0, quotient.first), quotient)
        pooled = _sum_over_graphs(h, quotient.colour, quotient)
        return self._read(pooled, batch.ptr.diff(), self._of_graphs(batch))

    def _of_graphs(self, batch: Data) -> Tensor | None:
        return None if self.fingerprint is None else self.fingerprint(batch.graph_x)

    def _read(self, pooled: Tensor, num_nodes: Tensor, of_graph: Tensor | None) -> Tensor:
        """The input of the head: from sums of ``num_nodes`` states and vectors of graphs' own features."""
        if self.pooling == "mean":
            pooled = pooled / num_nodes.clamp(min=1).unsqueeze(1)
        pooled = self.norm(pooled)
        return pooled if of_graph is None else torch.cat([pooled, of_graph], dim=1)

    def contributions(self, batch: Data) -> Tensor:
        """How much less is predicted when the state of a node is left out of its graph's sum.

        A state is of a node and of what lies around it; the other states stay as they are, and so do
        features of whole graphs. Contributions do not add up to the prediction: heads are not linear, and
        with ``norm`` or mean pooling a node that is like all others adds nothing. To be called in evaluation
        mode.

        Args:
            batch: See the class.

        Returns:
            ``[N, num_tasks]``: regression in the unit of the targets (of a distribution the mean or median),
            classification in logits; ``[N, 1]`` of ordered classes, in their common logit.

        Raises:
            ValueError: Something is missing in the batch.
        """
        batch = complete(batch, self.num_edge_types, self.num_graph_values)
        h, owner, num_nodes = self.states(batch.x, batch), batch.batch, batch.ptr.diff()
        pooled, of_graph = segment_sum(h, batch.ptr, owner), self._of_graphs(batch)
        whole = self._linear(self._read(pooled, num_nodes, of_graph))
        rest = pooled.index_select(0, owner) - h
        of_node = None if of_graph is None else of_graph.index_select(0, owner)
        without = self._linear(self._read(rest, num_nodes.index_select(0, owner) - 1, of_node))
        return whole.index_select(0, owner) - without

    def _linear(self, vectors: Tensor) -> Tensor:
        """Values less the mean of the targets, or log-odds."""
        raw, mean = self.head(vectors), torch.zeros_like(self.target_mean)
        return self.target.linear(self.target(raw, mean, self.target_std))

    def depth_for(self, data: PackedGraphs) -> int | None:
        """The iterations whose colours this network takes of a store; ``None``: it goes by nodes."""
        distinct, num_nodes = len(data.arrays.node_table), len(data.arrays.node_type)
        if self.quotient_depth is None or not self._mostly_distinct(distinct, num_nodes):
            return self.quotient_depth
        logger.info(
            f"{type(self).__name__} computes every node, not every colour once: {num_nodes:,} nodes have "
            f"{distinct:,} different rows of features"
        )
        return None

    def _mostly_distinct(self, distinct: int, num_nodes: int) -> bool:
        """Whether colours are not worth it: only features (floats) hardly ever repeat."""
        features = isinstance(self.encoder, FeatureEncoder)
        return features and self.quotient == "auto" and 2 * distinct > num_nodes

    def _weights_of_states(self) -> Iterator[Tensor]:
        yield from self.parameters(recurse=False)
        yield from self.buffers(recurse=False)
        for name, child in self.named_children():
            if name not in ("norm", "fingerprint", "head", "target"):
                yield from child.parameters()
                yield from child.buffers()

    def _quotient_of(self, batch: Data, own: Quotient | None) -> Quotient | None:
        """The batch by its colours: as the loader gave it, or made here; ``None`` to go by nodes.

        A quotient that is not known to be the batch's own is compared with it.
        """
        # A compiler follows neither the search for colours nor the log.
        if self.quotient is False or self.quotient_depth is None or torch.compiler.is_compiling():
            return None
        given = own or batch.get("quotient")
        if is_watched(self):
            reason = "somebody watches single messages of the layer"
        elif batch.x.requires_grad:
            reason = "gradients of x are wanted, which a colour's nodes do not share"
        elif (
            isinstance(given, Quotient)  # PyG makes a list when it collates
            and len(given.levels) >= self.quotient_depth
            and (given is own or is_of(given, *of_quotient(batch)))
        ):
            return given
        elif traced():
            reason = "transforms of torch.func follow no search for colours, and PackedLoader has found none"
        elif not batch.x.is_cpu and self.quotient == "auto":
            reason = "the batch is not on the CPU and has no quotient, which PackedLoader can give"
        else:
            label = self.encoder.labels(batch.x)
            if not self._mostly_distinct(int(label.max(initial=-1)) + 1, len(label)):
                return quotient_of_batch(batch, label, self.num_edge_types, self.quotient_depth)
            reason = "the features of its nodes are mostly distinct"
        logger.debug(f"{type(self).__name__} computes every node, not every colour once: {reason}")
        return None

    def forward(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        return self._outputs(self.embed(batch, cache))

    def _outputs(self, vectors: Tensor) -> Tensor:
        return self.target(self.head(vectors), self.target_mean, self.target_std)

    def predict(self, batch: Data, cache: ColourCache | None = None) -> Tensor:
        """Values in the unit of the targets (of a distribution its mean or median), probabilities of class 1,
        or of a target with several classes those of all: ``[B, num_tasks]``.
        """
        return self.predict_vectors(self.embed(batch, cache))

    def predict_vectors(self, vectors: Tensor) -> Tensor:
        """The values of :meth:`predict` from the vectors of :meth:`embed`."""
        return self.predictions(self._outputs(vectors))

    def predictions(self, out: Tensor) -> Tensor:
        """The values of :meth:`predict` from those of :meth:`forward`."""
        return self.target.predictions(out)

    def described(self, vectors: Tensor) -> Tensor:
        """All that is predicted of each target, from the vectors of :meth:`embed`: ``[B, num_tasks, K]``.

        Of a Gaussian mean and deviation, of quantiles all, of other targets the value of :meth:`predict`.
        """
        return self.target.described(self._outputs(vectors))


def _sum_over_graphs(states: Tensor, row: Tensor, quotient: Quotient) -> Tensor:
    """Sums over graphs of the states in ``row`` of the colours that occur in them."""
    members = SortedEdges(row, quotient.graph, quotient.indptr, states.size(0), None)
    return neighbor_sum(states, members, quotient.multiplicity)
