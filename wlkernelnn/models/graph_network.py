"""What all networks for whole graphs share: codes in, layers of a subclass, pooling, head, scaling."""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.nn import MLP
from torch_geometric.nn.inits import reset

from wlkernelnn.conv.graph import Graph, as_tensor, checked_edge_type
from wlkernelnn.conv.kernel_conv import is_watched
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.packed import check_packed
from wlkernelnn.ops.autograd import transformed
from wlkernelnn.ops.colours import Quotient, is_of, packed_columns, wl_colours, wl_quotient
from wlkernelnn.ops.graph import SortedEdges, neighbor_sum
from wlkernelnn.ops.graph.segments import segment_sum
from wlkernelnn.utils.checks import check_count, check_dropout, check_one_of, plain

from .colour_cache import ColourCache
from .encoder import CodeEncoder
from .fingerprint import FingerprintEncoder

logger = logging.getLogger("wlkernelnn")

TASKS = ("regression", "classification")
# Arguments that a subclass need not have.
DEFAULTS: dict[str, Any] = {
    "num_edge_types": None,
    "num_tasks": 1,
    "task": "regression",
    "pooling": "sum",
    "norm": True,
    "dropout": 0.0,
    "num_node_values": 0,
    "num_graph_values": 0,
    "quotient": False,
}


def arguments(local: Mapping[str, Any]) -> dict[str, Any]:
    """What the constructor of a network was given, by its ``locals()``: the network's ``config``."""
    own = {name: value for name, value in local.items() if name not in ("self", "__class__", "shared")}
    return own | local.get("shared", {})


class GraphNetwork(torch.nn.Module, ABC):
    r"""Predicts properties of graphs with discrete node and edge codes, such as molecules.

    The states of the nodes that :meth:`states` computes, their sum or mean over a graph, and a two-layer
    perceptron.

    Args:
        config: The arguments of the subclass, which make the same network again. Those that are meant here:
            ``node_dims``, ``num_edge_types``, ``num_tasks``, ``task``, ``hidden_channels``, ``pooling``,
            ``norm``, ``dropout``, ``num_node_values``, ``num_graph_values`` and ``quotient``; what they are
            says :class:`GraphKernelNetwork`.
        num_steps: How many edges far a state sees: its Weisfeiler-Lehman colour after so many iterations
            decides it. ``None``: colours don't decide it.
        state_channels: Width of the states; default ``hidden_channels``.

    Shapes:
        - input: a batch with ``x [N, len(node_dims) + num_node_values]``, ``edge_index [2, E]``,
          ``edge_type [E]`` (not needed without edges), ``batch [N]`` and ``ptr [B+1]`` (a single graph has
          neither of the last two), and with num_graph_values ``graph_x [B, num_graph_values]``
        - output: ``[B, num_tasks]``: regression in the unit of the targets, classification as logits

    Raises:
        ValueError: An argument is out of its range, or something is missing in a batch.
    """

    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self, config: Mapping[str, Any], num_steps: int | None, state_channels: int | None = None
    ) -> None:
        super().__init__()
        #: The arguments: what makes the same network again, kept in checkpoints beside the weights.
        self.config = {name: plain(value) for name, value in config.items()}
        self.config["node_dims"] = plain(list(config["node_dims"]))
        given = DEFAULTS | self.config
        check_one_of("task", given["task"], TASKS)
        if given["pooling"] not in ("sum", "mean"):
            raise ValueError(f'pooling must be "sum" or "mean", got {given["pooling"]!r}')
        least = {"num_tasks": 1, "hidden_channels": 1, "num_node_values": 0, "num_graph_values": 0}
        for name, smallest in least.items():
            check_count(name, given[name], smallest)
        if given["quotient"] not in ("auto", True, False):
            raise ValueError(f'quotient must be "auto", True or False, got {given["quotient"]!r}')
        if given["quotient"] is True and num_steps is None:
            raise ValueError("quotient=True: not colours decide the states of this network, but single nodes")
        check_dropout(given["dropout"])
        self.task: str = given["task"]
        self.pooling: str = given["pooling"]
        self.quotient: bool | str = given["quotient"]
        self.num_edge_types: int | None = given["num_edge_types"]
        #: Iterations after which colours decide a state: what :class:`PackedLoader` is to give, or ``None``.
        self.quotient_depth = num_steps if self.quotient else None
        hidden, num_tasks, dropout = given["hidden_channels"], given["num_tasks"], given["dropout"]
        state_channels = state_channels or hidden
        self.encoder = CodeEncoder(given["node_dims"], hidden, given["num_node_values"])
        self.norm = torch.nn.LayerNorm(state_channels) if given["norm"] else torch.nn.Identity()
        self.fingerprint: FingerprintEncoder | None = None
        if given["num_graph_values"]:
            self.fingerprint = FingerprintEncoder(given["num_graph_values"], hidden, dropout)
            state_channels += hidden
        #: Width of what :meth:`embed` gives.
        self.embedding_channels = state_channels
        self.head = MLP([state_channels, hidden, num_tasks], dropout=[dropout, 0.0], norm=None)
        self.register_buffer("target_mean", torch.zeros(num_tasks))
        self.register_buffer("target_std", torch.ones(num_tasks))

    @classmethod
    def from_data(cls, data: PackedGraphs, **kwargs: Any) -> Self:
        """A network for a data set: sizes, task and the scaling of targets come from ``data``.

        Give the training part (``data[data.split_idx["train"]]``), so that scaling sees nothing else.

        Args:
            data: The graphs, with targets.
            **kwargs: Any other argument of the class.

        Raises:
            TypeError: ``data`` is no packed store.
            ValueError: ``data`` has no targets, or does not say how many values its node codes have.
        """
        check_packed("data", data)
        about = data.description
        if data.num_tasks == 0:
            raise ValueError(f"data set {about.name!r} has no targets to size a network from")
        if not about.node_dims:
            raise ValueError(f"data set {about.name!r}: its description has no node_dims")
        sizes: dict[str, Any] = {
            "node_dims": about.node_dims,
            "num_edge_types": about.num_edge_types or None,
            "num_tasks": data.num_tasks,
            "task": about.task or "regression",
        }
        for name in ("num_node_values", "num_graph_values"):
            if number := getattr(about, name):
                sizes[name] = number
        net = cls(**sizes, **kwargs)
        if net.task == "regression":
            net.scale_targets(data.y)
        graph_x = data.arrays.graph_x
        if net.fingerprint is not None and graph_x.is_floating_point():
            net.fingerprint.scale(graph_x[data.index])
        return net

    @classmethod
    def check_arguments(cls, **kwargs: Any) -> None:
        """Refuse arguments before there are data to size a network from.

        Args:
            **kwargs: Arguments of the class, but for the sizes of the data.

        Raises:
            TypeError, ValueError: As the class.
        """
        sizes: dict[str, Any] = {"node_dims": [1], "num_edge_types": 1}
        with torch.device("meta"):  # no weights are drawn
            cls(**sizes, **kwargs)

    def scale_targets(self, y: Tensor) -> None:
        """Take mean and standard deviation of targets ``[G, tasks]`` (NaN = missing) into the network."""
        y = y.double()
        mean = y.nanmean(0).nan_to_num(0.0)
        std = ((y - mean) ** 2).nanmean(0).sqrt().nan_to_num(0.0)
        self.target_mean.copy_(mean)
        # Equal targets differ from their mean by rounding: that is no scale.
        self.target_std.copy_(torch.where(std > 1e-6 * mean.abs(), std, 1.0))

    def reset_parameters(self) -> None:
        for child in self.children():
            reset(child)

    @abstractmethod
    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        """The states of nodes, ``[N, state_channels]``, or of a quotient's last colours.

        Args:
            codes: Codes of the nodes, or of a quotient's first colours.
            graph: The batch, by its nodes or by its colours.
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
        if self.training:
            cache = None  # what dropout left of a state is not to be kept
        batch = self._whole(batch)
        quotient = self._quotient_of(batch)
        if quotient is None:
            pooled = segment_sum(self.states(batch.x, batch), batch.ptr, batch.batch)
        else:
            colour = quotient.colour
            if cache is None or not batch.x.is_cpu:
                h = self.states(batch.x.index_select(0, quotient.first), quotient)
            else:
                h, row = cache.states(batch.x, quotient, self.states, self._weights_of_states())
                colour = row.index_select(0, colour)
            members = SortedEdges(colour, quotient.graph, quotient.indptr, h.size(0), None)
            pooled = neighbor_sum(h, members, quotient.multiplicity)
        return self._read(pooled, batch.ptr.diff(), self._of_graph(batch))

    def _of_graph(self, batch: Data) -> Tensor | None:
        return None if self.fingerprint is None else self.fingerprint(batch.graph_x)

    def _read(self, pooled: Tensor, num_nodes: Tensor, of_graph: Tensor | None) -> Tensor:
        """What the head sees of sums of so many states, and of graphs' own features."""
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
            ``[N, num_tasks]``: regression in the unit of the targets, classification in logits.

        Raises:
            ValueError: Something is missing in the batch.
        """
        batch = self._whole(batch)
        h, owner, num_nodes = self.states(batch.x, batch), batch.batch, batch.ptr.diff()
        pooled, of_graph = segment_sum(h, batch.ptr, owner), self._of_graph(batch)
        whole = self.head(self._read(pooled, num_nodes, of_graph))
        rest = pooled.index_select(0, owner) - h
        of_node = None if of_graph is None else of_graph.index_select(0, owner)
        without = self.head(self._read(rest, num_nodes.index_select(0, owner) - 1, of_node))
        less = whole.index_select(0, owner) - without
        return less * self.target_std if self.task == "regression" else less

    def _whole(self, batch: Data) -> Data:
        """The batch with all that is read of it; what nobody but its maker can know must be there."""
        needed = {"x": "[N, F]", "edge_index": "[2, E]"}
        if self.fingerprint is not None:
            needed["graph_x"] = f"[B, {self.config['num_graph_values']}]"
        if self.num_edge_types is not None and batch.num_edges:
            needed["edge_type"] = f"[E] (num_edge_types={self.num_edge_types})"
        for name, shape in needed.items():
            if batch.get(name) is None:
                came = ", ".join(sorted(batch.keys())) or "nothing"
                raise ValueError(f"expected {name} {shape} in the batch; got {came}")
        if self.num_edge_types is not None and batch.get("edge_type") is None:
            batch = copy.copy(batch)
            batch.edge_type = batch.x.new_empty(0)
        batch = _whole_batch(batch)
        if self.fingerprint is not None:
            expected = [batch.ptr.numel() - 1, self.config["num_graph_values"]]
            if list(batch.graph_x.shape) != expected:
                raise ValueError(f"expected graph_x of shape {expected}, got {list(batch.graph_x.shape)}")
        return batch

    def _weights_of_states(self) -> Iterator[Tensor]:
        yield from self.parameters(recurse=False)
        yield from self.buffers(recurse=False)
        for name, child in self.named_children():
            if name not in ("norm", "fingerprint", "head"):
                yield from child.parameters()
                yield from child.buffers()

    def _quotient_of(self, batch: Data) -> Quotient | None:
        """The batch by its colours: as the loader gave it, or made here; ``None`` to go by nodes."""
        # A compiler follows neither the making of a quotient nor the log.
        if self.quotient is False or self.quotient_depth is None or torch.compiler.is_compiling():
            return None
        given = batch.get("quotient")
        # PyG makes a list of what it collates.
        fits = isinstance(given, Quotient) and given.depth >= self.quotient_depth and _is_of(given, batch)
        given = given if fits else None
        if reason := self._why_by_nodes(batch, given is not None):
            logger.debug(f"{type(self).__name__} computes every node, not every colour once: {reason}")
            return None
        return self._made_quotient(batch, self.quotient_depth) if given is None else given

    def _why_by_nodes(self, batch: Data, given: bool) -> str:
        """A reason not to go by colours, or ``""``."""
        if is_watched(self):
            return "somebody watches single messages of the layer"
        if given:
            return ""
        if transformed():
            return "transforms of torch.func follow no search for colours, and PackedLoader has found none"
        if not batch.x.is_cpu and self.quotient == "auto":
            return "the batch is not on the CPU and has no quotient, which PackedLoader can give"
        return ""

    def _made_quotient(self, batch: Data, depth: int) -> Quotient:
        self.encoder.check(batch.x)
        num_nodes, edge_type = batch.x.size(0), None
        if self.num_edge_types is not None:
            edge_type = checked_edge_type(type(self).__name__, batch.edge_type)
        graph = Graph(batch.edge_index, (num_nodes, num_nodes), edge_type=edge_type)
        edges, edge_type = graph.sorted_edges, graph.sorted_features.type
        if edge_type is None:
            edge_type = torch.zeros_like(edges.source)
        label = packed_columns(list(batch.x.cpu().numpy().T), self.encoder.column_dims)
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


def _fits(batch: Data) -> bool:
    """Whether ``ptr`` is of these nodes, looked at on the CPU: PyG's ``subgraph`` leaves it as it was."""
    if torch.compiler.is_compiling() or not batch.x.is_cpu:
        return True
    ends = batch.ptr[[0, -1]].tolist() if batch.ptr.numel() else []
    if ends != [0, batch.x.size(0)] or bool((batch.ptr.diff() < 0).any()):
        return False
    return batch.batch is None or torch.equal(batch.batch.long(), _owners(batch.ptr))


def _owners(ptr: Tensor) -> Tensor:
    """The graph of every node."""
    return torch.arange(ptr.numel() - 1, device=ptr.device).repeat_interleave(ptr.diff())


def _is_of(quotient: Quotient, batch: Data) -> bool:
    """Whether a quotient is that of the batch, which may have been changed since."""
    parts = batch.x, as_tensor(batch.edge_index), batch.get("edge_type"), batch.ptr
    return quotient.origin.is_of(*parts) or is_of(quotient, *parts)


def _whole_batch(batch: Data) -> Data:
    """A single graph as a batch of one, and one with ``batch`` or ``ptr`` alone with the other beside it."""
    if "ptr" in batch and _fits(batch):
        if batch.batch is not None:
            return batch
        result = copy.copy(batch)
        result.batch = _owners(batch.ptr)
        return result
    if batch.batch is None:
        if "ptr" in batch:
            expected = f"expected ptr to ascend from 0 to the number of nodes, {batch.x.size(0)}"
            raise ValueError(f"{expected}; got {batch.ptr.tolist()}")
        return Batch.from_data_list([batch])
    if batch.batch.shape != batch.x.shape[:1] or (batch.batch < 0).any():
        raise ValueError(
            f"expected batch.batch to be the graph of each of {batch.x.size(0)} nodes, 0 or more; got shape "
            f"{list(batch.batch.shape)}, from {batch.batch.min() if batch.batch.numel() else 0} on"
        )
    if (batch.batch.diff() < 0).any():
        raise ValueError("batch.batch must not decrease: nodes of a graph stand side by side")
    counts = batch.batch.bincount(minlength=batch.ptr.numel() - 1 if "ptr" in batch else 0)
    result = copy.copy(batch)
    result.ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return result
