"""From a network's operations to the same on colours: what every value is, and where it is lifted."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from torch import nn
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import scatter

from .layers import least_level, num_steps, refusal, run_layer
from .operations import (
    PLAIN,
    POOLS,
    Kind,
    asks_for_rows,
    first_of,
    is_shape,
    named,
    place_of,
    shares,
    takes_one,
    writes,
)
from .program import Check, Program, run_module, run_scatter
from .rowwise import by_rows, is_rowwise_module
from .tracing import ROLES, CannotGoByColours, role_of

_COPY = "write h = h + other"


class Rewriter:
    """Goes through a network's operations and puts colours in the place of nodes.

    Args:
        net: The network.
        graph: Its operations.
        roles: What its arguments are, where their names do not say it.
        rowwise: Classes of modules that compute every row from the same row.
    """

    def __init__(
        self, net: nn.Module, graph: Graph, roles: Mapping[str, str], rowwise: tuple[type[nn.Module], ...]
    ) -> None:
        self.net, self.old, self.roles, self.rowwise = net, graph, roles, rowwise
        self.new = Graph()
        self.colours = self.new.placeholder("colours")
        self.value: dict[Node, Node] = {}  # new nodes by old ones
        self.kind: dict[Node, Kind] = {}
        # By nodes a family of values lies in one memory, that of its base; here those of one memory do.
        self.base: dict[Node, Node] = {}
        self.family: dict[Node, list[Node]] = {}
        self.memory: dict[Node, Node] = {}
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.depth = 0
        self.inputs: dict[str, str] = {}

    def program(self) -> Program:
        for node in self.old.nodes:
            getattr(self, f"_{node.op}")(node)
        # Arguments that nobody reads need not be there; what the network does, it does.
        self.new.eliminate_dead_code(lambda node: self.colours not in node.args[:1])
        self.new.lint()
        read = {str(node.target) for node in self.new.nodes if node.op == "placeholder" and node.users}
        return Program(self.new, self.depth, self.inputs, read)

    # What is known of arguments.

    def _kinds(self, values: Any) -> list[Kind]:
        kinds: list[Kind] = []
        map_arg(values, lambda node: kinds.append(self.kind[node]))
        return kinds

    def _is_rows(self, value: Any) -> bool:
        return isinstance(value, Node) and self.kind[value].rows != "plain"

    def _is_count(self, rows: str, value: Any) -> bool:
        """Whether a value is the number of nodes, or of edges."""
        return isinstance(value, Node) and self.kind[value].role == f"count of {rows}"

    def _rows(self, values: Any) -> Kind | None:
        """The rows that all these values can be had as: of the highest level, or of kinds of edges."""
        kinds = [kind for kind in self._kinds(values) if not kind.role.startswith("count of ")]
        tensors = [kind for kind in kinds if kind.rows != "plain" or kind.role != "constant"]
        if not tensors or len({kind.rows for kind in tensors}) > 1 or tensors[0].rows == "plain":
            return None
        return Kind(tensors[0].rows, max(kind.level for kind in tensors))

    def _as(self, values: Any, rows: Kind, sizes: bool = False) -> Any:
        """Values as rows of a level; of ``sizes``, the number of nodes as that of its rows."""

        def lifted(node: Node) -> Node:
            kind = self.kind[node]
            if kind.role == f"count of {rows.rows}" and sizes:
                return self.new.call_method("count", (self.colours, rows.rows, rows.level))
            if kind.rows != "node" or kind.level == rows.level:
                return self.value[node]
            return self.new.call_method("lift", (self.colours, self.value[node], kind.level, rows.level))

        return map_arg(values, lifted)

    def _as_nodes(self, values: Any) -> Any:
        """Values as they are by nodes and edges."""
        return map_arg(values, self._as_node)

    def _as_node(self, node: Node) -> Node:
        kind, value = self.kind[node], self.value[node]
        if kind.role in ROLES and kind.rows != "plain":
            return cast(Node, self.value[node].args[1])  # an argument of the network
        if kind.several and kind.rows != "plain":
            raise self._error(node, "several values at once are used as a whole")
        if kind.rows == "node":
            return self.new.call_method("nodes", (self.colours, value, kind.level))
        if kind.rows == "edge":
            return self.new.call_method("edges", (self.colours, value))
        return value

    def _set(self, node: Node, value: Node, kind: Kind) -> None:
        self.value[node], self.kind[node] = value, kind
        self.base[node] = self.memory[node] = node
        if (first := first_of(node)) is not None and shares(self.net, node):
            self.base[node] = self.base[first]
            if (kind.rows, kind.level) == (self.kind[first].rows, self.kind[first].level):
                self.memory[node] = self.memory[first]
        self.family.setdefault(self.base[node], []).append(node)

    def _write(self, node: Node, rows: Kind | None) -> None:
        """Prepare a call that writes to its first argument."""
        if node.kwargs.get("out") is not None:
            raise self._error(node, "it writes to the argument out: take what it returns")
        first = first_of(node)
        if first is None or not writes(self.net, node):
            return
        base = self.base[first]
        kind = self.kind[base]
        if kind.role in ("batch", "edge_index"):
            raise self._error(node, f"it writes to {kind.role}")
        if rows is None or not self._is_rows(first):
            return
        if self._as(first, rows) is not self.value[first]:
            raise self._error(node, "it writes to values of fewer layers than it reads: " + _COPY)
        if kind.role in ROLES:  # an argument, whose nodes are another tensor
            self.kind[base] = replace(kind, role="")

    def _written(self, node: Node) -> None:
        """Refuse a write that values would not see which are read later, and by nodes lie in one memory."""
        if first_of(node) is None or not writes(self.net, node):
            return
        for other in self.family[self.base[node]]:
            later = any(self.order[user] > self.order[node] for user in other.users)
            if other is not node and self.memory[other] is not self.memory[node] and later:
                raise self._error(node, "it writes to values that are read by colours and by nodes: " + _COPY)

    def _error(self, node: Node, reason: str) -> CannotGoByColours:
        return CannotGoByColours(f"{type(self.net).__name__}: {place_of(self.net, node)}: {reason}")

    # The operations.

    def _placeholder(self, node: Node) -> None:
        name = str(node.target)
        role = self.roles.get(name, role_of(name))
        value = self.new.placeholder(name)
        number = node.meta.get("number", False)
        self.inputs[name] = "number" if number else role
        if number:
            self._set(node, value, Kind(role=role if role == "graph" else "constant"))
        elif role in ("node", "edge"):
            value = self.new.call_method(role, (self.colours, value))
            self._set(node, value, Kind(role, role=role))
        else:
            self._set(node, value, Kind(role=role))

    def _get_attr(self, node: Node) -> None:
        self._set(node, self.new.node_copy(node), Kind(role="constant"))

    def _output(self, node: Node) -> None:
        self.new.output(self._as_nodes(node.args[0]))

    def _call_module(self, node: Node) -> None:
        module = self.net.get_submodule(str(node.target))
        rows = self._rows([node.args, node.kwargs])
        if isinstance(module, MessagePassing):
            self._layer(node, module)
        elif type(module) in POOLS and self._pool(node, POOLS[type(module)], module.forward):
            return
        elif rows is not None and is_rowwise_module(module, self.rowwise):
            self._write(node, rows)
            args, kwargs = self._as(node.args, rows), self._as(node.kwargs, rows)
            owner = self.new.get_attr(str(node.target))
            call = (owner, self.colours, rows.rows, rows.level, args, kwargs)
            self._set(node, self.new.call_function(run_module, call), Kind(rows.rows, rows.level))
        else:
            self._write(node, None)
            self._by_nodes(node)
        self._written(node)

    def _call_function(self, node: Node) -> None:
        if node.target is scatter and self._pool(node, None, scatter):
            return
        self._call(node)
        if node.target is scatter:
            self.value[node].target = run_scatter

    def _call_method(self, node: Node) -> None:
        self._call(node)

    def _call(self, node: Node) -> None:
        first = node.args[0] if node.args else None
        if isinstance(first, Node):
            kind = self.kind[first]
            if kind.several and takes_one(node):
                value = self.new.node_copy(node, self.value.__getitem__)
                self._set(node, value, Kind(kind.rows, kind.level))
                return
            if kind.rows != "plain" and is_shape(node):
                shape = self.new.call_method("shape", (self.colours, self.value[first], kind.rows))
                self._set(node, shape, Kind(role=f"shape of {kind.rows}"))
                return
            if asks_for_rows(node, kind):
                of = "edge" if "edge" in (kind.rows, kind.role.rpartition(" ")[2]) else "node"
                count = self.new.call_function(getattr, (self.colours, f"num_{of}s"))
                self._set(node, count, Kind(role=f"count of {of}"))
                return
            if node.target is operator.getitem and kind.role.startswith("shape of "):
                self._set(node, self.new.node_copy(node, self._as_node), Kind(role="constant"))
                return
        rows = self._rows([node.args, node.kwargs])
        how = None if rows is None else by_rows(node, self._is_rows, partial(self._is_count, rows.rows))
        self._write(node, None if how is None else rows)
        if rows is None or how is None:
            self._by_nodes(node)
            self._written(node)
            return
        args, kwargs = (self._as(values, rows, how.sizes) for values in (node.args, node.kwargs))
        value = self.new.create_node(node.op, node.target, args, kwargs, name=node.name)
        constants = [
            self.value[other] for other in node.all_input_nodes if self.kind[other].role == "constant"
        ]
        value.meta["check"] = Check(
            place_of(self.net, node),
            how.least_dims,
            None if how.number else (rows.rows, rows.level),
            constants if how.aligned else [],
            [other for other in value.all_input_nodes if other not in constants] if how.aligned else [],
        )
        kind = Kind(role="constant") if how.number else Kind(rows.rows, rows.level, how.several)
        self._set(node, value, kind)
        self._written(node)

    def _by_nodes(self, node: Node) -> None:
        """Run an operation as it is, on values by nodes."""
        kinds = self._kinds([node.args, node.kwargs])
        reason = next((kind.reason for kind in kinds if kind.reason), "")
        if any(kind.rows != "plain" for kind in kinds):
            reason = reason or f"it depends on {place_of(self.net, node)}, which colours do not decide"
        same = ["constant"]
        if getattr(node.target, "__module__", "") == "_operator":
            same += ["count of node", "count of edge"]
        role = "constant" if kinds and all(kind.role in same for kind in kinds) else ""
        self._set(node, self.new.node_copy(node, self._as_node), Kind(role=role, reason=reason))

    def _pool(self, node: Node, reduce: str | None, function: Any) -> bool:
        """Sum up over graphs, if that is what is done: of rows, by ``batch``."""
        given = named(function, node)
        source, index = given.get("src", given.get("x")), given.get("index")
        if not isinstance(source, Node) or self.kind[source].rows != "node":
            return False
        by_batch = isinstance(index, Node) and self.kind[index].role == "batch"
        reduce = reduce or given.get("reduce", "sum")
        if not by_batch or given.get("ptr") is not None or given.get("dim", 0) not in (0, -2):
            return False
        if reduce not in ("sum", "add", "mean", "max", "min"):
            return False
        size = given.get("dim_size")
        kind = self.kind[source]
        call = (self.colours, self.value[source], kind.level, reduce, self._as_nodes(size))
        value = self.new.call_method("pool", call)
        self._set(node, value, PLAIN)
        return True

    def _layer(self, node: Node, conv: MessagePassing) -> None:
        """A layer of message passing, from colours to colours."""
        if reason := refusal(conv):
            raise self._error(node, f"{type(conv).__name__}: {reason}")
        given = named(conv.forward, node)
        if given.get("return_attention_weights") is not None:
            raise self._error(node, f"{type(conv).__name__}: weights of attention are of single edges")
        nodes: dict[str, Any] = {}
        edges: dict[str, Any] = {}
        others: dict[str, Any] = {}
        index = None
        for name, value in given.items():
            kinds = self._kinds(value)
            if isinstance(value, Node) and kinds[0].role == "edge_index":
                index = name
            elif any(kind.rows == "node" for kind in kinds) and not any(
                kind.rows == "edge" for kind in kinds
            ):
                nodes[name] = value
            elif kinds and kinds[0].rows == "edge" and isinstance(value, Node):
                edges[name] = value
            elif kinds and any(kind.role != "constant" for kind in kinds):
                changed = "not that of the batch: change edges in a transform of the data"
                other = changed if name == "edge_index" else "neither of nodes nor of edges"
                why = kinds[0].reason or f"its argument {name} is {other}"
                raise self._error(node, f"{type(conv).__name__}({name}=…): {why}")
            else:
                others[name] = value
        if index is None:
            raise self._error(node, f"{type(conv).__name__} does not go along the edge_index of the batch")
        if not nodes:
            raise self._error(node, f"{type(conv).__name__} gets no states of nodes")
        rows = self._rows(nodes)
        if rows is None:
            reason = next((k.reason for k in self._kinds(nodes) if k.reason), "some states are by nodes")
            raise self._error(node, f"{type(conv).__name__}: {reason}")
        rows = Kind("node", max(rows.level, least_level(conv)))
        call = (
            self.new.get_attr(str(node.target)),
            self.colours,
            rows.level,
            self._as(nodes, rows),
            {name: self.value[value] for name, value in edges.items()},
            index,
            self._as_nodes(others),
        )
        level = rows.level + num_steps(conv)
        self.depth = max(self.depth, level)
        self._set(node, self.new.call_function(run_layer, call), Kind("node", level))
