"""What runs in the place of a network's forward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.fx import Graph, Interpreter, Node
from torch_geometric.utils import scatter

from .colouring import Colouring
from .norms import CountedRows, has_batch_statistics
from .rowwise import ALONG_DIM
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
        return _Runner(net, self.graph, colours).run(colours, *(arguments[name] for name in self.inputs))


class Check(NamedTuple):
    """What must hold when an operation by rows runs, as ranks are not known before.

    Attributes:
        place: The operation and its line.
        least_dims: How many dimensions its first argument must have.
        rows: Of what its result has a row each, and on which level; ``None``: it has no rows.
        constants: Arguments that must be the same for all rows.
        aligned: Arguments with rows that must have as many dimensions each: ``[N, 1]`` and ``[N]`` are
            broadcast to all pairs of nodes.
    """

    place: str
    least_dims: int
    rows: tuple[str, int] | None
    constants: list[Node]
    aligned: list[Node]


class _Runner(Interpreter):
    def __init__(self, net: nn.Module, graph: Graph, colours: Colouring) -> None:
        super().__init__(net, graph=graph)
        self.extra_traceback = False
        self.colours = colours

    def run_node(self, n: Node) -> Any:
        check: Check | None = n.meta.get("check")
        if check is None:
            return super().run_node(n)
        if check.least_dims:
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            first = next(iter((*args, *kwargs.values())))
            first = first[0] if isinstance(first, (list, tuple)) else first
            if first.dim() < check.least_dims:
                raise CannotGoByColours(f"{check.place} goes along the nodes, of shape {list(first.shape)}")
        out = super().run_node(n)
        if check.rows is not None:
            expected = self.colours.count(*check.rows)
            for value in out if isinstance(out, (list, tuple)) else [out]:
                if value.shape[:1] != (expected,):
                    raise CannotGoByColours(
                        f"{check.place} makes {list(value.shape)} of {expected} rows: write sizes of rows as "
                        "h.size(0), those of others as numbers"
                    )
            for constant in map(self.env.__getitem__, check.constants):
                if isinstance(constant, Tensor) and constant.dim() >= out.dim() and constant.size(0) != 1:
                    raise CannotGoByColours(
                        f"{check.place} has an argument of shape {list(constant.shape)}, not the same for all"
                    )
            several = [self.env[other] for other in check.aligned if isinstance(self.env[other], Tensor)]
            if len({value.dim() for value in several}) > 1:
                rows = check.rows[0]
                shapes = (", ".join([rows[0].upper(), *map(str, value.shape[1:])]) for value in several)
                raise CannotGoByColours(
                    f"{check.place} pairs {rows}s with {rows}s: its arguments have the shapes "
                    f"[{'] and ['.join(shapes)}]; give them as many dimensions each, as h.unsqueeze(1)"
                )
        return out


def run_scatter(src: Tensor, index: Tensor, dim: int = 0, *args: Any, **kwargs: Any) -> Tensor:
    """PyG's ``scatter``, where dimension −2 of one number per row is the only one.

    PyG's pools ask for −2 when they are traced: a value that is recorded does not tell its dimensions.
    """
    return scatter(src, index, -1 if dim == -2 and src.dim() == 1 else dim, *args, **kwargs)


def run_module(
    module: nn.Module,
    colours: Colouring,
    rows: str,
    level: int,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Run a module whose rows are alone, but for batch norm, on rows of nodes' colours or kinds of edges."""
    if isinstance(module, ALONG_DIM):
        first, dim = next(iter((*args, *kwargs.values()))), module.dim
        if dim is None or not (dim > 0 or (dim == -1 and first.dim() > 1)):
            raise CannotGoByColours(f"{module} goes along the nodes, of shape {list(first.shape)}")
    if not has_batch_statistics(module):
        return module(*args, **kwargs)
    count = colours.weights[level] if rows == "node" else colours.edge_weights
    with CountedRows({count.numel(): count}):
        return module(*args, **kwargs)
