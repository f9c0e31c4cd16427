"""Theorem 4 in exact arithmetic: deep layers lie in the space of their kernel, with a bound of their norm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import mpmath
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch_geometric.data import Data

from wlkernelnn import DeepKernelConv
from wlkernelnn.kernels import DeepGraphKernel
from wlkernelnn.kernels.composition import Series, get_composition

from .calling import call, edge_features, largest_error, require, require_float64
from .series import PowerSeries, norms, number, series_sum

# Allowed between float64 and exact values of networks and kernels.
_RTOL = 1e-9


class State(NamedTuple):
    """One state of a network beside its kernel, over all nodes of all graphs.

    Attributes:
        what: For messages.
        values: The network's values, ``[N, channels]``.
        kernel: The kernel, ``[N, N]``.
        norms: Gram of the channels' functions in the kernel's space, ``[channels, channels]``.
    """

    what: str
    values: np.ndarray
    kernel: np.ndarray
    norms: np.ndarray


def exact(values: Tensor | np.ndarray) -> np.ndarray:
    """The same numbers as mpmath's, in an object array."""
    array = values.detach().numpy() if isinstance(values, Tensor) else values
    return np.asarray(np.frompyfunc(mpmath.mpf, 1, 1)(array.astype(object)), dtype=object)


def _each(function: Callable[[Any], Any], values: np.ndarray) -> np.ndarray:
    return np.asarray(np.frompyfunc(function, 1, 1)(values), dtype=object)


class _Graphs(NamedTuple):
    """All graphs as one: features, a matrix ``[N, N]`` per column of edge features, edges, owners."""

    x: np.ndarray
    adjacency: list[np.ndarray]
    reached: np.ndarray
    owner: np.ndarray
    num_graphs: int


def _joined(graphs: Sequence[Data], num_edge_types: int | None) -> _Graphs:
    sizes = [int(graph.num_nodes or 0) for graph in graphs]
    nodes = sum(sizes)
    columns: list[np.ndarray] = []
    reached = np.zeros((nodes, nodes), dtype=bool)
    for graph, first in zip(graphs, np.cumsum([0, *sizes]), strict=False):
        assert graph.edge_index is not None
        source, target = graph.edge_index.numpy() + first
        known = edge_features(graph)
        values = known.get("edge_attr", torch.ones(len(source), 1, dtype=torch.float64))
        if num_edge_types is not None:
            values = one_hot(known["edge_type"], num_edge_types).double()
        if "edge_weight" in known:
            values = values * known["edge_weight"].view(-1, 1)
        columns = columns or [exact(np.zeros((nodes, nodes))) for _ in range(values.size(1))]
        for matrix, column in zip(columns, exact(values).T, strict=True):
            np.add.at(matrix, (target, source), column)
        reached[target, source] = True
    x = torch.cat([graph.x for graph in graphs if graph.x is not None])
    return _Graphs(exact(x), columns, reached, np.repeat(np.arange(len(graphs)), sizes), len(graphs))


def _states(
    layers: Sequence[DeepKernelConv],
    kernel: DeepGraphKernel,
    activation: PowerSeries,
    composition: Series,
    graphs: _Graphs,
) -> Iterator[State]:
    """The recursions of section 3.3, of the network, of the kernel, and of the norms, side by side."""
    hat = norms(activation, composition)
    lam = mpmath.mpf(kernel.decay)
    nothing = exact(np.zeros((len(graphs.x), len(graphs.x))))

    def compose(own: np.ndarray, moved: np.ndarray) -> np.ndarray:
        return np.asarray(own * moved if kernel.compose == "mul" else own + moved)

    # Only within this call: numbers have the digits of the precision they were made in.
    coefficient = cache(lambda a: number(composition.coefficient(a)))

    def composed(k: np.ndarray) -> np.ndarray:
        return _each(lambda z: series_sum(coefficient, composition.last, z), k)

    h, k_base, norms_base = graphs.x, graphs.x @ graphs.x.T, exact(np.eye(graphs.x.shape[1]))
    for depth, layer in enumerate(layers, 1):
        weights = [exact(cast(Tensor, lin.weight)) for lin in layer.lins]
        c, k, gram = h @ weights[0].T, k_base, weights[0] @ norms_base @ weights[0].T
        ends: np.ndarray = np.ones(len(h), dtype=bool)
        for j in range(1, kernel.walk_length):
            yield State(f"c_{j} of layer {depth}", c, k, gram)
            sent, k_sent = _each(activation.exact, c), composed(k)
            if kernel.walks_only:
                sent, k_sent = sent * ends[:, None], k_sent * np.outer(ends, ends)
                ends = (graphs.reached & ends).any(axis=1)
            factor = _edge_factor(layer, j)
            moved = sum((matrix @ sent) * factor[:, d] for d, matrix in enumerate(graphs.adjacency))
            k_moved = sum((matrix @ k_sent @ matrix.T for matrix in graphs.adjacency), nothing)
            c = compose(h @ weights[j].T, lam * moved)
            k = compose(k_base, lam * k_moved)
            gram = compose(
                weights[j] @ norms_base @ weights[j].T, lam * (factor @ factor.T) * _each(hat, gram)
            )
            if kernel.walks_only:
                c, k = c * ends[:, None], k * np.outer(ends, ends)
        yield State(f"c_{kernel.walk_length} of layer {depth}", c, k, gram)
        out = exact(layer.lin_out.weight)
        h, k_base, norms_base = (
            _each(activation.exact, c @ out.T),
            composed(k),
            _each(hat, out @ gram @ out.T),
        )
        yield State(f"h of layer {depth}", h, k_base, norms_base)
    pool = exact(graphs.owner == np.arange(graphs.num_graphs)[:, None])
    yield State("the sum of h over the nodes of a graph", pool @ h, pool @ k_base @ pool.T, norms_base)


def _edge_factor(layer: DeepKernelConv, j: int) -> np.ndarray:
    """W_e ``[channels, D]`` of the step to node j + 1: ones where edges are all alike."""
    if not len(layer.edge_factors):
        return exact(np.ones((layer.out_channels, 1)))
    edge_map: Any = layer.edge_factors[j - 1]
    return exact(edge_map.lin.weight if edge_map.table is None else edge_map.table.t())


def rkhs_norm(values: np.ndarray, kernel: np.ndarray) -> tuple[Any, Any]:
    """The squared norm of the smallest function of a kernel's space that has these values.

    Args:
        values: mpmath's numbers ``[N]``.
        kernel: mpmath's numbers ``[N, N]``.

    Returns:
        fᵀK⁺f, and r² / d: what is left of the values, beside what is left of K's diagonal, where K has no
        more rank within half the working precision. A function of squared norm B leaves r² ≤ B d.
    """
    rest, k, norm = values.copy(), kernel.copy(), mpmath.mpf(0)
    # Elimination with the largest diagonal entry first: what remains is known without the nodes done so far.
    floor = mpmath.power(10, -(mpmath.mp.dps // 2)) * max([*np.diagonal(k), mpmath.mpf(0)])
    for _ in range(len(rest)):
        pivot = max(range(len(rest)), key=lambda i: k[i, i])
        if k[pivot, pivot] <= floor:
            break
        column, share = k[:, pivot] / k[pivot, pivot], rest[pivot]
        norm += share * share / k[pivot, pivot]
        rest, k = rest - column * share, k - np.outer(column, k[pivot])
    left = max([value * value for value in rest], default=mpmath.mpf(0))
    return norm, left / floor if floor else left


def assert_in_rkhs(
    layers: Sequence[DeepKernelConv],
    kernel: DeepGraphKernel,
    graphs: Sequence[Data],
    activation: PowerSeries,
    digits: int = 120,
) -> float:
    r"""Theorem 4: every state of a deep network lies in the space of its kernel, with a bound of its norm.

    For the values f of one channel at all nodes (or, summed, at all graphs) and the kernel matrix K there:
    :math:`f \in \mathrm{range}(K)` and :math:`f^\top K^+ f \le G_{ii}`, where G is the Gram matrix of the
    channels' functions, carried along by

    .. math::
        P \leftarrow W G W^\top \qquad
        P \leftarrow (W G W^\top) \circ \lambda \hat\sigma(P) \qquad
        G \leftarrow \hat\sigma(U P U^\top)

    with :math:`\hat\sigma(k) = \sum_a (s_a^2 / b_a) k^a` (:func:`norms`), for :math:`c_1 … c_n` and h of
    every layer. K is very ill-conditioned, hence exact arithmetic: take few and small graphs. That the layers
    in float64 have these values, and that K is ``kernel``'s Gram, is checked as well.

    Args:
        layers: A stack of :class:`~wlkernelnn.DeepKernelConv` in float64, with ``activation`` as their
            ``act`` and a constant decay.
        kernel: Of the same depth, walk_length, decay, compose and walks_only; its composition a power series.
        graphs: Not all empty, with float64 ``x``.
        activation: σ.
        digits: Decimal digits of the arithmetic.

    Returns:
        The largest fᵀK⁺f beside its bound: at most 1.

    Raises:
        AssertionError: A state lies outside, or float64 and exact values differ by more than 1e-9.
        ValueError: Layers, kernel and activation do not go together, or a norm is infinite.
    """
    composition = get_composition(kernel.composition)
    if not isinstance(composition, Series):
        raise ValueError(f"the composition must be a power series, got {composition}")
    if len(layers) != kernel.num_layers:
        raise ValueError(f"{len(layers)} layers for a kernel with num_layers={kernel.num_layers}")
    for layer in layers:
        require_float64(layer)
        for name in ("walk_length", "compose", "walks_only"):
            if getattr(layer, name) != getattr(kernel, name):
                raise ValueError(
                    f"{name} is {getattr(layer, name)} of a layer, {getattr(kernel, name)} of the kernel"
                )
        if layer.decay.decay != kernel.decay:
            raise ValueError(f"decay is {layer.decay.decay} of a layer, {kernel.decay} of the kernel")
        if layer.act != activation:
            raise ValueError(f"a layer has the activation {layer.act}, expected act={activation.name}")
    gram, outs = np.asarray(kernel(list(graphs))), [_outputs(layers, graph) for graph in graphs]
    with mpmath.workdps(digits):
        tightest = 0.0
        for state in _states(
            layers, kernel, activation, composition, _joined(graphs, layers[0].num_edge_types)
        ):
            for channel, values in enumerate(state.values.T):
                norm, outside = rkhs_norm(values, state.kernel)
                bound = state.norms[channel, channel]
                if max(norm, outside) > bound * (1 + mpmath.mpf(10) ** -12):
                    came, left, allowed = (mpmath.nstr(value, 8) for value in (norm, outside, bound))
                    raise AssertionError(
                        f"{state.what}, channel {channel}: squared norm {came}, outside the space {left}; "
                        f"allowed is {allowed}"
                    )
                if bound:
                    tightest = max(tightest, float(norm / bound))
        sums = torch.tensor(state.values.astype(np.float64))
        exact_gram = torch.tensor(state.kernel.astype(np.float64))
    require(largest_error(torch.stack(outs), sums), _RTOL, "the layers beside their exact values")
    require(largest_error(torch.tensor(gram), exact_gram), _RTOL, "the kernel beside its exact values")
    return tightest


def _outputs(layers: Sequence[DeepKernelConv], graph: Data) -> Tensor:
    graph = graph.clone()
    for layer in layers:
        graph.x = call(layer, graph)
    assert graph.x is not None
    return graph.x.sum(0)
