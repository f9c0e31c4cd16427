"""What all layers share: their arguments, their sum over neighbours, and who watches its messages."""

from __future__ import annotations

from inspect import signature
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import MessagePassing
from torch_geometric.nn.aggr import SumAggregation
from torch_geometric.nn.inits import reset

from wlkernelnn.blocks.hooks import has_hooks
from wlkernelnn.ops.autograd import traced
from wlkernelnn.ops.colours import Quotient
from wlkernelnn.utils.checks import check_count, check_widths

from .edge_map import EdgeMap
from .graph import Graph, Step, graph_of_colours, graph_of_nodes

Features = Tensor | tuple[Tensor, Tensor]
Value = Tensor | tuple[Tensor | None, Tensor | None] | EdgeMap | None

# Where PyG keeps what explainers and users hook onto its steps. It has no public name for it.
_HOOKS = [
    f"_{step}_forward{when}_hooks" for step in ("propagate", "message", "aggregate") for when in ("_pre", "")
]


def writes_propagate(cls: type[MessagePassing]) -> bool:
    """Whether a class has a ``propagate`` of its own, not PyG's or one that PyG generated for a class."""
    base = next(base for base in cls.__mro__ if "propagate" in vars(base))
    # The modules that PyG generates are named after the class.
    generated = vars(base)["propagate"].__module__.startswith(f"{base.__module__}_{base.__name__}_")
    return base is not MessagePassing and not generated


class KernelConv(MessagePassing):
    """Base of the layers.

    A layer says in ``outputs`` what it computes, with ``self.sum(step, name=value, …)``, and in ``message``
    what is summed, as in any layer of PyG. It may say in ``fast_sum`` how to compute the same sum at once.

    Args:
        in_channels: Width of the node features, −1 for lazy, or a pair for a bipartite graph.
        out_channels: Width of the result.
        num_edge_types: Edges carry codes ``edge_type`` in [0, num_edge_types), or ``None``.
        edge_dim: Edges carry floats ``edge_attr [E, edge_dim]``, or ``None``.

    Raises:
        ValueError: A width is no integer of at least 1, or edges are to carry both.
    """

    #: What PyG's ``propagate`` takes: the arguments of ``message``, without ``_i`` and ``_j``.
    propagate_type: dict[str, Any]
    #: Whether ``fast_sum`` is the sum of this class's messages: a subclass may change one step alone.
    _has_fast_sum = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        where = {
            step: next(base for base in cls.__mro__ if step in vars(base))
            for step in ("message", "aggregate", "update", "fast_sum")
        }
        of_library = where["aggregate"] is where["update"] is MessagePassing and not writes_propagate(cls)
        cls._has_fast_sum = of_library and where["message"] is where["fast_sum"]
        names = [
            name.removesuffix("_i").removesuffix("_j")
            for step, own in (("message", 1), ("aggregate", 2), ("update", 2))
            for name in [*signature(getattr(cls, step)).parameters][own:]
            if name not in cls.special_args
        ]
        cls.propagate_type = dict.fromkeys(names, Any)

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        num_edge_types: int | None = None,
        edge_dim: int | None = None,
    ) -> None:
        super().__init__(aggr="add")
        check_widths(in_channels, out_channels)
        if num_edge_types is not None and edge_dim is not None:
            raise ValueError(
                f"give either num_edge_types or edge_dim, not both (got {num_edge_types} and {edge_dim})"
            )
        for name, value in (("num_edge_types", num_edge_types), ("edge_dim", edge_dim)):
            if value is not None:
                check_count(name, value)
        self.in_channels = in_channels if isinstance(in_channels, tuple) else int(in_channels)
        self.out_channels = out_channels
        self.num_edge_types = num_edge_types
        self.edge_dim = edge_dim

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for child in self.children():
            reset(child)

    @property
    def num_steps(self) -> int:
        """How many edges far the layer sees."""
        raise NotImplementedError

    def edge_map(self, out_channels: int, factor: bool = False) -> EdgeMap | None:
        """A linear map of this layer's edge features, if it has any."""
        if self.num_edge_types is None and self.edge_dim is None:
            return None
        return EdgeMap(out_channels, self.num_edge_types, self.edge_dim, factor)

    def forward(
        self,
        x: Features,
        edge_index: Tensor | Graph | Quotient,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Tensor:
        return self.outputs(x, self.graph(x, edge_index, edge_attr, edge_type, edge_weight))

    def outputs(self, x: Features, graph: Graph) -> Tensor:
        """The layer's equation: a row per node, or per colour of the graph's last level."""
        raise NotImplementedError

    def graph(
        self,
        x: Features,
        edge_index: Tensor | Graph | Quotient,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
        edge_weight: Tensor | None = None,
    ) -> Graph:
        """Check the inputs of ``forward``, once for everything that a layer does."""
        if isinstance(edge_index, Graph):
            return edge_index
        name = type(self).__name__
        if self.flow != "source_to_target":
            raise ValueError(f'{name} sums over sources: flow must be "source_to_target", got {self.flow!r}')
        if isinstance(edge_index, Quotient):
            if edge_attr is not None or edge_type is not None or edge_weight is not None:
                raise ValueError(
                    f"{name}: a quotient carries its edge types itself; give no edge features beside it"
                )
            if self.edge_dim is not None:
                raise ValueError(f"{name}: a quotient has edge types, this layer was made with edge_dim")
            if isinstance(x, tuple):
                raise ValueError(f"{name}: x must have a row per first colour, got a pair")
            if is_watched(self):
                raise ValueError(
                    f"{name}: to watch single messages takes nodes, not colours; give edge_index"
                )
            return graph_of_colours(edge_index, x, self.num_edge_types)
        source, target = x if isinstance(x, tuple) else (x, x)
        for nodes in (source, target):
            if nodes is None or nodes.dim() != 2:
                given = "nothing" if nodes is None else f"shape {list(nodes.shape)}"
                raise ValueError(f"{name} needs x of shape [N, in_channels] (or a pair of such), got {given}")
        self.check_edges(edge_attr, edge_type)
        if edge_weight is not None:
            # numpy's float64 would make states of float64 where they are multiplied by it.
            edge_weight = edge_weight.to(source.dtype)
        size = source.size(0), target.size(0)
        return graph_of_nodes(edge_index, size, edge_weight, edge_attr, edge_type, self.num_edge_types)

    def check_edges(self, edge_attr: Tensor | None, edge_type: Tensor | None) -> None:
        """Refuse features of edges that this layer was not made for, or that lack.

        Args:
            edge_attr: Floats ``[E, edge_dim]``, a row per edge or per kind of edges.
            edge_type: Codes ``[E]``.

        Raises:
            ValueError: They are given and were not to be, or ``edge_attr`` is missing or has another width.
        """
        name = type(self).__name__
        if self.num_edge_types is None and edge_type is not None:
            raise ValueError(f"{name} got edge_type, but was made without num_edge_types")
        if self.edge_dim is None and edge_attr is not None:
            raise ValueError(f"{name} got edge_attr, but was made without edge_dim")
        if self.edge_dim is not None and (
            edge_attr is None or edge_attr.dim() != 2 or edge_attr.size(1) != self.edge_dim
        ):
            given = "nothing" if edge_attr is None else f"shape {list(edge_attr.shape)}"
            raise ValueError(f"{name} needs edge_attr of shape [E, {self.edge_dim}], got {given}")

    def sum(self, step: Step, **values: Value) -> Tensor:
        """Sum the layer's messages over the edges into every target.

        This method alone decides how: by ``fast_sum``, or by PyG's ``propagate`` where somebody watches the
        messages, an :class:`EdgeMap` has hooks, or PyTorch records or transforms operations.

        Args:
            step: The edges.
            **values: Arguments of ``message``: values of nodes for ``name_j`` and ``name_i`` (a pair, if
                sources and targets have their own), values of edges, or an :class:`EdgeMap` that computes
                these. ``edge_weight`` is added.

        Returns:
            ``[num_targets, K]``.
        """
        parts = [value if isinstance(value, tuple) else (value,) for value in values.values()]
        maps = [value for value in values.values() if isinstance(value, EdgeMap)]
        slow = self.watched or any(map(has_hooks, maps))
        slow = slow or traced(*(part for part in chain(*parts) if isinstance(part, Tensor)))
        edges, features = (None, step.features) if slow else step.by_target()
        given: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value, EdgeMap):  # an op takes the table itself
                value = value(features) if slow or value.table is None else value.table
            given[name] = value
        if edges is not None:
            return self.fast_sum(edges, features.type, features.weight, **given)
        given["edge_weight"] = features.weight
        given = {name: value for name, value in given.items() if name in self.propagate_type}
        return self.propagate(step.edge_index, size=step.size, **given)

    def fast_sum(self, *args: Any, **values: Any) -> Tensor:
        """The same sum by an op of :mod:`wlkernelnn.ops.graph`, in a layer that has one.

        :meth:`sum` calls ``fast_sum(edges, edge_type, edge_weight, **values)`` with edges sorted by target,
        their types ``[E]``, their weights ``[E, 1]``, and its own values, of an :class:`EdgeMap` of codes the
        table.
        """
        raise NotImplementedError

    @property
    def watched(self) -> bool:
        """Whether messages or sums are seen or changed: by an explainer, a hook of PyG's, a subclass, or
        another aggregation.
        """
        return bool(
            self.explain
            or any(getattr(self, hooks) for hooks in _HOOKS)
            or type(self.aggr_module) is not SumAggregation
            or not self._has_fast_sum
        )

    def __prepare_scriptable__(self) -> torch.nn.Module:
        raise NotImplementedError(
            f"{type(self).__name__} cannot be scripted; use torch.jit.trace, torch.export or torch.compile"
        )


def is_watched(module: torch.nn.Module) -> bool:
    """Whether somebody watches messages of the module or of a layer in it."""
    return any(part.watched for part in module.modules() if isinstance(part, KernelConv))
