"""What runs in the place of a network's forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.fx import Graph, Interpreter, Node

from .colouring import Colouring
from .norms import CountedRows, has_batch_statistics
from .tracing import CannotGoByColours


@dataclass
class Program:
    """What runs instead of a network's forward.

    Attributes:
        graph: Its operations; the first argument is the :class:`Colouring`.
        depth: Iterations of colours that it needs.
        inputs: The roles of the arguments, by name.
        read: The names of the arguments that it reads.
    """

    graph: Graph
    depth: int
    inputs: dict[str, str]
    read: set[str]

    def names(self, role: str) -> list[str]:
        """The arguments of a role that are read."""
        return [name for name, given in self.inputs.items() if given == role and name in self.read]

    def run(self, net: nn.Module, colours: Colouring, arguments: Mapping[str, Any]) -> Any:
        return _Runner(net, self.graph).run(colours, *(arguments[name] for name in self.inputs))


class _Runner(Interpreter):
    def __init__(self, net: nn.Module, graph: Graph) -> None:
        super().__init__(net, graph=graph)
        self.extra_traceback = False

    def run_node(self, n: Node) -> Any:
        least = n.meta.get("least_dims")
        if least:
            (value, *_), _ = self.fetch_args_kwargs_from_env(n)
            first = value[0] if isinstance(value, (list, tuple)) else value
            if first.dim() < least:
                raise CannotGoByColours(f"{n.name} goes along the nodes, of shape {list(first.shape)}")
        return super().run_node(n)


def run_module(
    module: nn.Module,
    colours: Colouring,
    rows: str,
    level: int,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Run a module whose rows are alone, but for batch norm, on rows of nodes' colours or kinds of edges."""
    if not has_batch_statistics(module):
        return module(*args, **kwargs)
    count = colours.weights[level] if rows == "node" else colours.edge_weights
    with CountedRows({count.numel(): count}):
        return module(*args, **kwargs)
