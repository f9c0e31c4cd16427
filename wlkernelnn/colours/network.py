"""Any network of PyG, each Weisfeiler-Lehman colour computed once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property
from inspect import Parameter
from typing import Any, Self
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric import nn as pyg
from torch_geometric.data import Data
from torch_geometric.nn import MessagePassing

from wlkernelnn.datasets.graphs.pyg import own_quotient
from wlkernelnn.models import GraphNetwork
from wlkernelnn.ops.autograd import traced as traced_by_others

from .calls import is_argument, settings, signature_of, stand_in, watched_module
from .colouring import Colouring, colour_batch, numbered_rows
from .layers import loses_loops
from .program import Program
from .rewriter import Rewriter
from .tracing import ROLES, traced

logger = logging.getLogger("wlkernelnn")

# By nodes, if the layers would compute more than this share of the rows they have by nodes.
MOST_ROWS = 0.8
# Both networks have the same objects here.
_SHARED = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")
# Programs that are kept, for different arguments, modes and settings of a network.
MOST_PROGRAMS = 32


def to_colours(
    net: nn.Module,
    roles: Mapping[str, str] | None = None,
    rowwise: tuple[type[nn.Module], ...] = (),
) -> ColourNetwork:
    r"""Make a network of PyG compute each Weisfeiler-Lehman colour once, with the same outputs and gradients.

    The state of a node after l layers depends on its colour after l iterations of colour refinement alone:
    on its own inputs, and those of the nodes and edges up to l edges away. In batches of small graphs with
    discrete features, such as molecules, most nodes share their colour with others. Layers of message
    passing, perceptrons, norms of single rows, batch norm (which counts each colour as often as it occurs),
    jumping knowledge and pooling over graphs go by colours. What is unknown goes by nodes; after that, no
    layer can go by colours.

    Dropout between layers drops a colour in all of its nodes.

    Args:
        net: Its ``forward`` takes tensors, named as PyG does (``x``, ``edge_index``, ``edge_attr``,
            ``batch``, …), or a ``Data``. Traced by :mod:`torch.fx`: control flow may depend on ``training``
            and on which arguments are given, not on values of tensors.
        roles: What arguments are whose names do not say it: "node", "edge" or "graph".
        rowwise: Classes of modules that compute every row from the same row, and that cannot be traced.

    Returns:
        A module with the same parameters, buffers and submodules. It is called as ``net`` is, or with a
        ``Data`` that has the arguments as attributes.

    Raises:
        TypeError: ``net`` is not a module.
        ValueError: A part of the network, named with its line, does what colours do not decide; it goes by
            colours already; sizes of it are not known yet; or a role is unknown.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, got {type(net).__name__}")
    if isinstance(net, ColourNetwork):
        raise ValueError("net is a ColourNetwork: it goes by colours already")
    if isinstance(net, GraphNetwork):
        name, depth = type(net).__name__, net.quotient_depth
        own = "goes by colours itself" if depth else "has no states that colours decide, or quotient=False"
        raise ValueError(f'{name} {own}: give networks of this package quotient="auto" instead')
    for name, value in (*net.named_parameters(), *net.named_buffers()):
        if is_lazy(value):
            raise ValueError(f"{name} of {type(net).__name__} has no shape yet: run that on a batch first")
    for name, role in (roles or {}).items():
        if role not in ROLES:
            raise ValueError(f"roles[{name!r}] must be one of {', '.join(ROLES)}, got {role!r}")
    return ColourNetwork(net, dict(roles or {}), tuple(rowwise))


class ColourNetwork(nn.Module):
    """See :func:`to_colours`. ``net`` is the network by nodes."""

    net: nn.Module

    def __init__(self, net: nn.Module, roles: dict[str, str], rowwise: tuple[type[nn.Module], ...]) -> None:
        self.__dict__["net"] = net
        training = net.training
        super().__init__()
        # The same parameters, buffers and modules under the same names: state_dicts are interchangeable.
        for name in _SHARED:
            self.__dict__[name] = net.__dict__[name]
        self.training = training
        self.roles, self.rowwise = roles, rowwise
        self._programs: dict[Any, Program] = {}
        self._checked: WeakKeyDictionary[MessagePassing, dict[object, int]] = WeakKeyDictionary()
        #: Why the first batch that went by nodes did, "" while none has.
        self.went_by_nodes = ""
        if not self._takes_data:
            self._trace_early()

    def train(self, mode: bool = True) -> Self:
        self.net.train(mode)  # which may keep some modules as they are
        return self

    @property
    def training(self) -> bool:
        return self.net.training

    @training.setter
    def training(self, mode: bool) -> None:
        self.net.training = mode

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.net.state_dict(*args, **kwargs)  # with its extra state, and as its hooks make it

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        return self.net.load_state_dict(*args, **kwargs)

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.net._load_from_state_dict(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        made_anew = {"net", "roles", "rowwise", "_programs", "_checked", *_SHARED}
        own = {
            name: value
            for name, value in self.__getstate__().items()  # without what compile() has set
            if name not in made_anew and not isinstance(getattr(ColourNetwork, name, None), cached_property)
        }
        return ColourNetwork, (self.net, self.roles, self.rowwise), own

    @cached_property
    def _parameters_of_call(self) -> dict[str, Any]:
        """The names of the arguments of ``net``, and their defaults."""
        given = signature_of(self.net).parameters.values()
        return {one.name: one.default for one in given if one.kind != Parameter.VAR_KEYWORD}

    @cached_property
    def _needed(self) -> list[str]:
        """The names of the arguments that have no defaults."""
        return [name for name, default in self._parameters_of_call.items() if default is Parameter.empty]

    @cached_property
    def _single_norms(self) -> bool:
        norms = [part for part in self.net.modules() if isinstance(part, pyg.BatchNorm)]
        return any(norm.allow_single_element for norm in norms)

    @cached_property
    def _takes_data(self) -> bool:
        """Whether ``net`` takes a ``Data`` rather than tensors."""
        return len(self._needed) == 1 and self._needed != ["x"]

    def _trace_early(self) -> None:
        """Find what cannot go by colours, before there are batches: in both modes."""
        usual = ("edge_attr", "edge_weight", "edge_type", "batch")
        given = {
            name: ... if default is Parameter.empty or name in usual else default
            for name, default in self._parameters_of_call.items()
        }
        modes = {module: module.training for module in self.net.modules()}
        try:
            for mode in (not self.training, self.training):
                self.net.train(mode)
                self._program(given)
        finally:
            for module, mode in modes.items():
                module.training = mode

    def _program(self, given: Mapping[str, Any]) -> Program:
        """What runs for such arguments, with the modules as they are."""
        key = (
            settings(self.net),
            tuple(
                (name, tuple(value.items()) if isinstance(value, dict) else value)
                for name, value in given.items()
            ),
        )
        if key not in self._programs:
            if len(self._programs) >= MOST_PROGRAMS:
                self._programs.clear()
            graph = traced(self.net, given, self.rowwise)
            self._programs[key] = Rewriter(self.net, graph, self.roles, self.rowwise).program()
        return self._programs[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        call = self._call(args, kwargs)
        data = next((value for value in (*args, *kwargs.values()) if isinstance(value, Data)), None)
        if reason := self._by_nodes():
            return self._run_by_nodes(call, reason)
        given: dict[str, Any] = {}
        values: dict[str, Any] = {}
        for name, value in call.items():
            if isinstance(value, Data):
                sizes = {one: getattr(value, one, None) for one in ("num_graphs", "num_nodes", "num_edges")}
                attributes = {
                    name: part for name, part in (sizes | value.to_dict()).items() if is_argument(part)
                }
                given[name] = {name: stand_in(part) for name, part in attributes.items()}
                values |= attributes
            elif is_argument(value):
                given[name], values[name] = stand_in(value), value
            else:
                return self._run_by_nodes(call, f"{name} is a {type(value).__name__}")
        program = self._program(given)
        colours = self._colours(program, values, data)
        if isinstance(colours, str):
            return self._run_by_nodes(call, colours)
        colours.checked = self._checked
        return program.run(self.net, colours, values)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of ``net`` by their names."""
        names = self._parameters_of_call
        if not self._takes_data and len(args) == 1 and isinstance(args[0], Data):
            data = args[0]
            if missing := [name for name in self._needed if name not in data]:
                raise ValueError(
                    f"{type(self.net).__name__} takes {', '.join(missing)}; the batch has "
                    f"{', '.join(sorted(data.keys()))}"
                )
            kwargs = {name: data[name] for name in names if name in data} | kwargs
            args = ()
        call = dict(zip(names, args, strict=False)) | kwargs
        if len(call) < len(args) + len(kwargs) or not {*self._needed} <= {*call} <= {*names}:
            signature_of(self.net).bind(*args, **kwargs)  # says what is missing, or too much
        return {name: call.get(name, default) for name, default in names.items()} | call

    def _run_by_nodes(self, call: dict[str, Any], reason: str) -> Any:
        if not self.went_by_nodes and not torch.compiler.is_compiling():  # which takes no logger
            logger.warning(f"{type(self.net).__name__} goes by nodes: {reason}")
            self.went_by_nodes = reason
        return self.net(**call)

    def _by_nodes(self) -> str | None:
        """Why this call cannot go by colours, whatever the batch."""
        if torch.compiler.is_compiling() or traced_by_others():
            return "transforms of torch follow no search for colours"
        if (watched := watched_module(self.net)) is not None:
            return f"an explainer or hook looks at {type(watched).__name__}"
        return None

    def _colours(self, program: Program, values: Mapping[str, Any], data: Data | None) -> Colouring | str:
        """The colours of a batch, or why it goes by nodes."""
        given = {
            role: values[name] for name, role in program.inputs.items() if role in ("edge_index", "batch")
        }
        edge_index, owner = given.get("edge_index"), given.get("batch")
        if not program.depth:
            return "it has no layer that goes by colours"
        if not isinstance(edge_index, Tensor) or edge_index.layout != torch.strided:
            return "its edge_index is not a dense tensor"
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            raise ValueError(f"edge_index must have shape [2, E], got {list(edge_index.shape)}")
        if edge_index.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"edge_index must be int64, got {edge_index.dtype}")
        if loses_loops(self.net, edge_index):
            return "GCNConv keeps one of several edges from a node to itself"
        nodes, edges = program.names("node"), program.names("edge")
        if owner is None and not nodes:
            return "it reads neither batch nor inputs of nodes"
        num_nodes = values[nodes[0]].size(0) if owner is None else owner.numel()
        for names, rows in ((nodes, num_nodes), (edges, edge_index.size(1))):
            for name in names:
                if not isinstance(values[name], Tensor) or values[name].shape[:1] != (rows,):
                    shape = list(getattr(values[name], "shape", []))
                    raise ValueError(
                        f"{name} has shape {shape}, expected {rows} rows: if it is of something else, say so "
                        f"with to_colours(net, roles={{{name!r}: …}})"
                    )
        if any(values[name].requires_grad for name in (*nodes, *edges)):
            return "gradients of the inputs are of single nodes"
        if owner is None:
            owner = edge_index.new_zeros(num_nodes)
        elif (owner.diff() < 0).any():
            return "the nodes of a graph do not stand side by side"
        colours = self._known(data, program, values, given)
        if colours is None:
            label, first = numbered_rows([values[name] for name in nodes], num_nodes)
            if len(first) > MOST_ROWS * num_nodes:
                return f"{len(first):,} of {num_nodes:,} nodes differ in {', '.join(nodes)}"
            known = None if data is None else data.get("colours")
            given_edges = [values[name] for name in edges]
            colours = colour_batch(
                program.depth, edge_index, owner, [torch.from_numpy(label)], given_edges, known
            )
        num_rows = sum(step.size[1] for step in colours.steps[: program.depth])
        if num_rows > MOST_ROWS * program.depth * num_nodes:
            return f"{num_rows:,} of {program.depth * num_nodes:,} rows of the layers differ"
        if self._single_norms and num_nodes > 1 and colours.has_single_row:
            return (
                "allow_single_element=True of BatchNorm takes a batch of one colour for one of a single node"
            )
        return colours

    def _known(
        self, data: Data | None, program: Program, values: Mapping[str, Any], given: Mapping[str, Tensor]
    ) -> Colouring | None:
        """The colours that the loader found, if they are of all that the network reads."""
        quotient = None if data is None else own_quotient(data)
        if data is None or quotient is None or quotient.depth < program.depth:
            return None
        own = {name: values[name] for name in ("x", "edge_type") if name in values} | {**given}
        if any(value is not data.get(name) for name, value in own.items()):
            return None
        if not {*program.names("node")} <= {"x"} or not {*program.names("edge")} <= {"edge_type"}:
            return None
        edge_index = given["edge_index"]
        if (edge_index[0] == edge_index[1]).any():
            return None
        kind = data.edge_type
        first = kind.new_zeros(int(kind.max()) + 1 if kind.numel() else 0)
        places = torch.arange(kind.numel() - 1, -1, -1, device=kind.device)
        return Colouring(quotient, edge_index, kind, first.index_copy(0, kind.flip(0), places))
