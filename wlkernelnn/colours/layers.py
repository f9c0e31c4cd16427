"""One layer of message passing, from the colours of a level to those of the next."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from inspect import signature
from typing import Any

import torch
from torch import Tensor
from torch_geometric import nn as pyg
from torch_geometric.nn import GATConv, GATv2Conv, GCNConv, MessagePassing
from torch_geometric.nn import aggr as aggregations
from torch_geometric.nn.aggr.fused import FusedAggregation
from torch_geometric.utils import scatter

from wlkernelnn.conv.graph import EdgeFeatures, Graph, edge_features
from wlkernelnn.conv.graph import Step as KernelStep
from wlkernelnn.conv.kernel_conv import KernelConv, writes_propagate

from .calls import key_of, settings
from .colouring import Colouring, Step
from .comparing import Values, called, compare_with_nodes, states_of
from .norms import CountedRows, has_batch_statistics
from .rowwise import is_rowwise_container, is_rowwise_module, writes_forward
from .sums import has_own_methods, with_fast_sums
from .tracing import CannotGoByColours

# In the place of the number of batches that could not tell a layer apart: one did.
TOLD = -1
_KNOWN = (
    pyg.GCNConv,
    pyg.SAGEConv,
    pyg.GraphConv,
    pyg.GINConv,
    pyg.GINEConv,
    pyg.GATConv,
    pyg.GATv2Conv,
    pyg.TransformerConv,
    pyg.PNAConv,
    pyg.NNConv,
    pyg.CGConv,
    pyg.ResGatedGraphConv,
)
# What an aggregation of a set may be; others depend on the order of the neighbours, or draw numbers.
_OF_SETS = (
    aggregations.SumAggregation,
    aggregations.MeanAggregation,
    aggregations.MaxAggregation,
    aggregations.MinAggregation,
    aggregations.MulAggregation,
    aggregations.VarAggregation,
    aggregations.StdAggregation,
    aggregations.SoftmaxAggregation,
    aggregations.PowerMeanAggregation,
    aggregations.MedianAggregation,
    aggregations.QuantileAggregation,
    aggregations.DegreeScalerAggregation,
    aggregations.MultiAggregation,
    FusedAggregation,
)


def num_steps(conv: MessagePassing) -> int:
    """How many edges far a layer sees."""
    return conv.num_steps if isinstance(conv, KernelConv) else 1


def least_level(conv: MessagePassing) -> int:
    """The level that the input of a layer must have: GCN divides by the degrees of neighbours."""
    return int(_computes_as(conv, GCNConv) and bool(conv.normalize))


def loses_loops(net: torch.nn.Module, edge_index: Tensor) -> bool:
    """Whether a layer keeps one of several loops at a node: colours do not say which."""
    parts = (part for part in net.modules() if isinstance(part, MessagePassing))
    if not any(least_level(part) and part.add_self_loops for part in parts):
        return False
    loops = edge_index[0][edge_index[0] == edge_index[1]]
    return loops.unique().numel() < loops.numel()


def refusal(conv: MessagePassing) -> str | None:
    """Why a layer cannot go by colours, if it cannot."""
    if getattr(conv, "dropout", 0.0):
        return "dropout of attention must differ between nodes of the same colour"
    if conv.flow != "source_to_target":
        return f'colours are made of incoming edges, the flow is "{conv.flow}"'
    if getattr(conv, "cached", False):
        return "with cached=True it computes on the graph of its first call"
    if any(isinstance(part, torch.nn.SyncBatchNorm) for part in conv.modules()):
        return "SyncBatchNorm counts rows, not nodes"
    if isinstance(conv, KernelConv) and (reason := _kernel_refusal(conv)):
        return reason
    for part in conv.aggr_module.modules():
        if isinstance(part, aggregations.Aggregation) and not isinstance(part, _OF_SETS):
            return f"{type(part).__name__} depends on more than the set of the neighbours"
    return None


def _kernel_refusal(conv: KernelConv) -> str | None:
    """The same of a layer of this package."""
    for name in ("forward", "graph"):
        if getattr(type(conv), name) is not getattr(KernelConv, name):
            return f"its class has its own {name}; write outputs or message instead"
    act = getattr(conv, "act", torch.nn.Identity())
    library = type(act).__module__.startswith(("torch.nn.", "torch_geometric.nn."))
    if has_batch_statistics(conv) or (library and not is_rowwise_module(act, ())):
        return f"its activation {type(act).__name__} looks at several nodes"
    return None


def run_layer(
    conv: MessagePassing,
    colours: Colouring,
    level: int,
    nodes: Values,
    edges: Values,
    index: str,
    others: Values,
) -> Tensor:
    """Run a layer from the colours of ``level``: rows of the level :func:`num_steps` higher.

    Args:
        conv: The layer.
        colours: The batch.
        level: The level of its inputs.
        nodes: Arguments that are rows of the level: tensors, or pairs for sources and targets.
        edges: Arguments that are rows of kinds of edges.
        index: The name of the argument that takes ``edge_index``.
        others: All other arguments.
    """
    if isinstance(conv, KernelConv):
        return _run_kernel_layer(conv, colours, level, nodes, edges)
    states = states_of(nodes)
    known = least_level(conv) or (_is_known(conv) and all(state.dim() > 1 for state in states))
    for state in states:
        # Other layers may take arguments of other shapes.
        if known and conv.node_dim not in (0, -state.dim()):
            raise CannotGoByColours(
                f"{type(conv).__name__} with node_dim={conv.node_dim} has no row per node in states of shape "
                f"{list(state.shape)}"
            )
    if least_level(conv):
        return _run_gcn(conv, colours, level, nodes, edges)
    if not known:
        checked = colours.checked.setdefault(conv, {})
        # Without loops, or where all rows are alike, layers look right that are not.
        given = tuple(nodes), tuple(edges), key_of(others)
        case = settings(conv), given, colours.loops is not None, colours.count("node", level) > 1
        number = checked.get(case, 0)
        if number != TOLD:
            tells = _tells_layers_apart(colours, level)
            # Until a batch tells, the first, second, fourth, … that does not is compared as well.
            if tells or number & (number + 1) == 0:
                compare_with_nodes(_run, conv, colours, level, nodes, edges, index, others)
            checked[case] = TOLD if tells else number + 1
    return _run(conv, colours, level, nodes, edges, index, others)


def _tells_layers_apart(colours: Colouring, level: int) -> bool:
    """Whether a batch can tell layers apart that look at more than neighbours, or at less: that merge edges.

    It has nodes of several degrees, and one with two neighbours that are alike.
    """
    degree, step = colours.edge_index[0].bincount(), colours.steps[level]
    pair = step.edge_index[1] * step.size[0] + step.edge_index[0]
    edge = pair * colours.count("edge") + step.kind
    return degree[degree > 0].unique().numel() > 1 and edge.unique().numel() < edge.numel()


def _run(
    conv: MessagePassing,
    colours: Colouring,
    level: int,
    nodes: Values,
    edges: Values,
    index: str,
    others: Values,
) -> Tensor:
    step = colours.steps[level]
    sources, targets = step.size
    pairs = {name: _pair(value, step) for name, value in nodes.items()}
    edge_index = step.edge_index
    stacked = not _takes_pairs(conv, nodes)
    flat = all(state.dim() == 2 and state.is_floating_point() for state in states_of(nodes))
    fast = with_fast_sums(conv, step.edges, step.kind, edges) if flat and not stacked else None
    if fast is not None:
        conv = fast
    else:
        edges = {name: value.index_select(0, step.kind) for name, value in edges.items()}
    if isinstance(conv, (GATConv, GATv2Conv)) and conv.add_self_loops:
        edge_index, edges = _with_loops(colours, step, edges, conv.fill_value)
        conv = copy.copy(conv)
        conv.add_self_loops = False
    context: Any = nullcontext()
    if has_batch_statistics(conv):
        # Batch norm knows its rows by their number: more rows, that do not count, tell them apart.
        num_edges = edge_index.size(1)
        more, extra = 0, 0
        if fast is None:  # fast sums have no row per edge, and layers with them no batch norm before
            more = int(not stacked and sources == num_edges)
            taken = (num_edges,) if stacked else (num_edges, sources + more)
            extra = next(extra for extra in range(3) if stacked * sources + targets + extra not in taken)
        count = torch.nn.functional.pad(colours.weights[level + 1], (0, extra))
        below = torch.nn.functional.pad(colours.weights[level], (0, more))
        pairs = {
            name: (_longer(one, more), None if two is None else _longer(two, extra))
            for name, (one, two) in pairs.items()
        }
        if fast is not None:
            counts = {targets: count}
        elif stacked:
            counts = {sources + targets + extra: torch.cat([0 * below, count])}
        else:
            counts = {sources + more: below, targets + extra: count}
        if fast is None:
            counts[num_edges] = count.index_select(0, edge_index[1])
        context = CountedRows(counts)
    with context:
        if not stacked:
            return called(conv, pairs, {index: edge_index, **edges, **others})[:targets]
        # A graph of the colours of both levels, with no edges into those of the lower.
        whole = {name: torch.cat([part for part in pair if part is not None]) for name, pair in pairs.items()}
        edge_index = torch.stack([edge_index[0], edge_index[1] + sources])
        given = {index: edge_index, **edges, **others}
        return called(conv, whole, given)[sources : sources + targets]


def _is_known(conv: MessagePassing) -> bool:
    """Whether a layer is one that the tests show to go by colours, and its parts compute row by row."""
    if not any(_computes_as(conv, known) for known in _KNOWN):
        return False
    parts = [part for name, part in conv.named_children() if part is not conv.aggr_module]
    return all(map(is_rowwise_container, parts)) and not any(map(writes_forward, conv.aggr_module.modules()))


def _computes_as(conv: MessagePassing, known: type[MessagePassing]) -> bool:
    """Whether a layer has the methods of a class: it is one, or changes nothing that counts."""
    methods = ("forward", "message", "aggregate", "update", "edge_update")
    same = all(getattr(type(conv), name) is getattr(known, name) for name in methods)
    return same and not writes_propagate(type(conv)) and not has_own_methods(conv)


def _pair(value: Any, step: Step) -> tuple[Tensor, Tensor | None]:
    source, target = value if isinstance(value, (tuple, list)) else (value, value)
    return source, None if target is None else step.lift(target)


def _longer(value: Tensor, extra: int) -> Tensor:
    return torch.cat([value, value[:1].expand(extra, *value.shape[1:])]) if extra else value


def _takes_pairs(conv: MessagePassing, nodes: Values) -> bool:
    """Whether the layer says that it takes a pair of states, of sources and of targets."""
    given = signature(type(conv).forward).parameters
    return all(
        any(word in str(given[name].annotation) for word in ("Tuple", "tuple", "Pair")) for name in nodes
    )


def _with_loops(
    colours: Colouring, step: Step, edges: Values, fill: float | Tensor | str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Edges with a loop at every target, as GAT adds them: those that are there make room."""
    edge_index = step.edge_index
    if colours.loops is not None:
        kept = (~colours.loops).index_select(0, step.kind).nonzero().squeeze(1)
        edge_index = edge_index.index_select(1, kept)
        edges = {name: value.index_select(0, kept) for name, value in edges.items()}
    targets = step.size[1]
    looped = {}
    for name, value in edges.items():
        if isinstance(fill, str):
            loop = scatter(value, edge_index[1], dim=0, dim_size=targets, reduce=fill)
        else:
            loop = value.new_empty(targets, *value.shape[1:])
            loop[:] = fill
        looped[name] = torch.cat([value, loop])
    loops = torch.stack([step.own, torch.arange(targets, device=step.own.device)])
    return torch.cat([edge_index, loops], dim=1), looped


def _run_gcn(conv: GCNConv, colours: Colouring, level: int, nodes: Values, edges: Values) -> Tensor:
    """GCN, whose weights are of the degrees of both ends: those of a colour are known from level 1 on."""
    (x,) = nodes.values()
    weight = next(iter(edges.values()), None)
    if isinstance(x, (tuple, list)):
        raise ValueError("GCNConv takes no pair of states")
    # Without weights of edges PyG gives loops the weight 1, improved or not.
    fill = (2.0 if conv.improved and weight is not None else 1.0) if conv.add_self_loops else None
    weight = x.new_ones(colours.edge_first.numel()) if weight is None else weight.reshape(-1).to(x.dtype)
    step = colours.steps[level]
    weights, missing, degree = _degrees(colours, step, weight, fill)
    _, _, below = _degrees(colours, colours.steps[level - 1], weight, fill)
    edge_index = step.edge_index
    if fill is not None:
        loops = torch.stack([step.own.index_select(0, missing), missing])
        edge_index = torch.cat([edge_index, loops], dim=1)
    norm = below.index_select(0, edge_index[0]) * weights * degree.index_select(0, edge_index[1])
    out = conv.propagate(edge_index, x=(conv.lin(x), None), edge_weight=norm, size=step.size)
    return out if conv.bias is None else out + conv.bias


def _degrees(
    colours: Colouring, step: Step, weight: Tensor, fill: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The weights of a step's edges and of loops that are added, where these are, and degrees to the −1/2."""
    target, targets = step.edge_index[1], step.size[1]
    weights = weight.index_select(0, step.kind)
    missing = torch.arange(targets, device=target.device)
    if colours.loops is not None and fill is not None:
        number = target[colours.loops.index_select(0, step.kind)].bincount(minlength=targets)
        if number.numel() and number.max() > 1:
            raise ValueError("GCNConv keeps one of several edges from a node to itself: merge them before")
        missing = (number == 0).nonzero().squeeze(1)
    degree = weights.new_zeros(targets).index_add(0, target, weights)
    if fill is not None:
        loops = weights.new_full((missing.numel(),), fill)
        weights, degree = torch.cat([weights, loops]), degree.index_add(0, missing, loops)
    scale = degree.pow(-0.5)
    return weights, missing, scale.masked_fill(scale == float("inf"), 0.0)


def _run_kernel_layer(
    conv: KernelConv, colours: Colouring, level: int, nodes: Values, edges: Values
) -> Tensor:
    """A layer of this package, which knows levels itself."""
    (x,) = nodes.values()
    weight, attr, edge_type = (edges.get(f"edge_{name}") for name in ("weight", "attr", "type"))
    conv.check_edges(attr, edge_type)
    weight = None if weight is None else weight.to(x.dtype)
    of_kinds = edge_features(colours.edge_first.numel(), weight, attr, edge_type, conv.num_edge_types)
    steps = []
    for step in colours.steps[level : level + num_steps(conv)]:
        features = EdgeFeatures(
            *(None if value is None else value.index_select(0, step.kind) for value in of_kinds)
        )
        steps.append(KernelStep(step.edge_index, step.size, features, None, (step.edges, features), step.own))
    return conv.outputs(x, Graph(steps))
