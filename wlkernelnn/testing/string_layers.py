"""Theorem 1 and the closed forms of string kernel layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from scipy.special import comb
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.conv.random_walk import RandomWalkKernelConv
from wlkernelnn.kernels import StringKernel
from wlkernelnn.ops.graph import neighbor_sum_naive
from wlkernelnn.sequence import StringKernelConv, decayed_sum, path_graph, subsequence_graph

from .calling import inferring, largest_error, require, require_float64, require_graphs, require_strings
from .kernel_layers import absolute
from .string_laws import read


def reference_strings(layer: StringKernelConv, ngram: int | None = None) -> list[Tensor]:
    """The reference string of every channel: row k of :math:`W^{(1)} … W^{(j)}`, ``[j, in_channels]`` each.

    ``ngram`` is j, by default n.
    """
    n = layer.ngram if ngram is None else ngram
    return list(torch.stack([cast(Tensor, lin.weight) for lin in layer.lins[:n]], dim=1).detach())


def prefixes(strings: Sequence[Tensor]) -> list[Tensor]:
    """x_1…t for every token t of every string, in their order."""
    return [string[: t + 1] for string in strings for t in range(len(string))]


def prefix_states(layer: StringKernelConv, strings: Sequence[Tensor]) -> Tensor:
    """:math:`c_1 … c_n` at every token, ``[n, N, out_channels]``: the states behind all prefixes."""
    _, state = read(layer, prefixes(strings))
    assert isinstance(state, Tensor)
    return state[: layer.ngram]


def constant_rates(layer: StringKernelConv) -> Tensor:
    """λ of every channel, ``[out_channels]``, which must not depend on the data."""
    if layer.decay.gated:
        raise ValueError("the kernels know a λ that is constant or learned: see assert_walks_on_strings")
    with torch.no_grad():
        return torch.as_tensor(layer.decay(), dtype=torch.float64).expand(layer.out_channels)


def rates(layer: StringKernelConv, graph: Data) -> Tensor:
    """λ at every token of a graph, ``[N, out_channels]``: what a gate makes of it there."""
    assert graph.x is not None
    if not layer.decay.gated:
        return constant_rates(layer).expand(len(graph.x), -1)
    with inferring(layer):
        seen: tuple[Tensor, ...] = (graph.x,)
        if layer.feedback:
            h, _ = layer(graph)
            seen = neighbor_sum_naive(h, graph.edge_index, len(h), graph.get("edge_weight")), graph.x
        return layer.decay.gate(torch.stack(layer.decay.project(*seen)).sum(0))


def _require_bare(layer: StringKernelConv, compose: str) -> None:
    """The identities are about states: h must be c_n."""
    require_float64(layer)
    if layer.compose != compose:
        raise ValueError(f'this is about layers with compose="{compose}", got "{layer.compose}"')
    if layer.act is not None and not isinstance(layer.act, torch.nn.Identity):
        raise ValueError(
            f"with the activation {layer.act} the layer lies in the kernel's space, but is not the kernel: "
            "see assert_in_rkhs"
        )
    if layer.readout != "last" or layer.highway is not None:
        raise ValueError('a layer whose output is c_n is needed: readout="last", without highway')


def _compare(
    layer: StringKernelConv,
    strings: Sequence[Tensor],
    form: Callable[[int, Sequence[Tensor], bool], Tensor],
    rtol: float,
) -> float:
    """Every state of every prefix, and the output, beside ``form(j, strings, signless) [N, K]``."""
    require_strings(strings)
    states, errors = prefix_states(layer, strings), {}
    for j in range(1, layer.ngram + 1):
        expected, scale = (form(j, strings, signless) for signless in (False, True))
        errors[f"c_{j}"] = largest_error(states[j - 1], expected, scale)
    errors["h"] = largest_error(torch.cat(read(layer, strings)[0]), expected, scale)
    return require(errors, rtol)


def assert_matches_string_kernel(
    layer: StringKernelConv, strings: Sequence[Tensor], rtol: float = 1e-9
) -> float:
    r"""Theorem 1: :math:`c_j[t]` is, channel by channel, the string kernel of j-grams.

    For every j ≤ n, every prefix :math:`x_{1:t}`, and the reference string of channel k
    (:func:`reference_strings`):

    * variant (a), ``normalize=False``: :class:`~wlkernelnn.kernels.StringKernel` of variant a;
    * variant (b), ``normalize=True``: :math:`(1-\lambda)^j Z'_j(t)` times that of variant b, where
      :math:`Z'_j(t) = \sum_{i_1 < … < i_j \le t} \lambda^{t-i_1-j+1}`.

    λ is constant or learned: each channel then has a kernel of its own.

    Args:
        layer: In float64, with products and without activation.
        strings: ``[T_i, in_channels]`` each, not all empty.
        rtol: Allowed error beside the sum of the absolute values of all terms of the kernel.
    """
    _require_bare(layer, "mul")
    decays = constant_rates(layer)

    def form(j: int, strings: Sequence[Tensor], signless: bool) -> Tensor:
        sides = (prefixes(strings), reference_strings(layer, j))
        x, references = ([side.abs() for side in both] if signless else both for both in sides)
        columns = []
        for decay, reference in zip(decays.tolist(), references, strict=True):
            kernel = StringKernel(j, decay, "b" if layer.normalize else "a")
            column = torch.as_tensor(np.asarray(kernel(x, [reference]))[:, 0])
            if layer.normalize:
                weights = [_weight_of_subsequences(len(prefix), j, decay) for prefix in x]
                column = column * (1 - decay) ** j * torch.tensor(weights, dtype=torch.float64)
            columns.append(column)
        return torch.stack(columns, dim=1)

    return _compare(layer, strings, form, rtol)


def _weight_of_subsequences(length: int, ngram: int, decay: float) -> float:
    """Z' of so many tokens: from its first token i, a subsequence goes on in C(t − i, n − 1) ways."""
    behind = np.arange(ngram - 1, length)
    return float((comb(behind, ngram - 1) * decay ** (behind - ngram + 1.0)).sum())


def assert_sums_tokens(layer: StringKernelConv, strings: Sequence[Tensor], rtol: float = 1e-9) -> float:
    r"""The closed form of sums: Table 4 (c), and the same without normalisation.

    .. math::
        c_j[t] = \sum_{m \le j} s^{j-m+1} \sum_{i \le t-j+m} \binom{t-i}{j-m} \lambda^{t-i-j+m} W^{(m)} x_i

    for every j ≤ n and every t, with s = 1 − λ (``normalize``) or 1, and λ constant or learned. Arguments are
    those of :func:`assert_matches_string_kernel`; the layer is one with sums.
    """
    _require_bare(layer, "add")
    decays = constant_rates(layer)
    scale = 1 - decays if layer.normalize else torch.ones_like(decays)

    def form(j: int, strings: Sequence[Tensor], signless: bool) -> Tensor:
        rows = []
        for string in strings:
            behind = torch.arange(len(string)).view(-1, 1) - torch.arange(len(string))  # t − i
            total = string.new_zeros(len(string), layer.out_channels)
            for m, lin in enumerate(layer.lins[:j], 1):
                x, weight = string, cast(Tensor, lin.weight).detach()
                u = x.abs() @ weight.abs().t() if signless else x @ weight.t()
                later = behind - (j - m)
                ways = torch.as_tensor(comb(behind.clamp(min=0).numpy(), j - m)) * (later >= 0)
                powers = decays ** later.clamp(min=0).unsqueeze(-1)  # [t, i, K]
                total += scale ** (j - m + 1) * torch.einsum("ti,tik,ik->tk", ways, powers, u)
            rows.append(total)
        return torch.cat(rows)

    return _compare(layer, strings, form, rtol)


def assert_is_word_cnn(layer: StringKernelConv, strings: Sequence[Tensor], rtol: float = 1e-9) -> float:
    r"""Footnote 3: with λ = 0 and sums, :math:`h[t] = \sigma(W^{(1)} x_{t-n+1} + … + W^{(n)} x_t)`.

    Beside PyTorch's convolution over the strings with n − 1 zeros before them.

    Args:
        layer: In float64, with ``decay=0, compose="add"``, readout ``"last"`` and any activation.
        strings: ``[T_i, in_channels]`` each.
        rtol: Allowed error beside the largest value.
    """
    require_float64(layer)
    require_strings(strings)
    came = layer.decay.decay, layer.compose, layer.readout, layer.highway
    if came != (0, "add", "last", None):
        raise ValueError(f'a word CNN has decay=0, compose="add", readout="last" and no highway, got {layer}')
    kernel = torch.stack(reference_strings(layer)).transpose(1, 2)  # [K, d, n]
    outs, errors = read(layer, strings)[0], {}
    for i, (string, out) in enumerate(zip(strings, outs, strict=True)):
        if not len(string):
            continue
        padded = torch.nn.functional.pad(string.t(), (layer.ngram - 1, 0))
        with inferring(layer):
            expected = torch.nn.functional.conv1d(padded, kernel).t()
            expected = expected if layer.act is None else layer.act(expected)
        errors[f"string {i}"] = largest_error(out, expected)
    return require(errors, rtol)


def assert_walks_on_strings(
    layer: StringKernelConv, strings: Sequence[Tensor] | Data, rtol: float = 1e-9
) -> float:
    r"""The string layer is a random walk layer on the subsequence graph, followed by a decayed sum.

    .. math::
        c_j[t] = \sum_{i \le t} \Big(\prod_{i<r\le t} \lambda_r\Big) s_i \, w_j[i]

    for every j ≤ n and every t, where :math:`w_j` is :class:`~wlkernelnn.RandomWalkKernelConv` of j nodes
    with decay 1 and the same weights :math:`W^{(1)} … W^{(j)}`, on the graph whose edges i → k weigh
    :math:`s_i \prod_{i<r<k} \lambda_r`, s = 1 − λ (``normalize``) or 1. So it holds for every λ, gates
    included: each channel then has edge weights of its own. See
    :func:`~wlkernelnn.sequence.subsequence_graph` and :func:`~wlkernelnn.sequence.decayed_sum`.

    Args:
        layer: In float64, with products and without activation.
        strings: ``[T_i, in_channels]`` each, not all empty; or a PyG ``Data`` or ``Batch`` of path graphs,
            trees or other acyclic graphs, on which :math:`c_n` alone is compared.
        rtol: See :func:`assert_matches_string_kernel`.
    """
    _require_bare(layer, "mul")
    if isinstance(strings, Data):
        require_graphs([strings])
        require_float64(layer, [strings])
        with inferring(layer):
            h, _ = layer(strings)
        expected, scale = (_walked(layer, strings, layer.ngram, signless) for signless in (False, True))
        return require({"h": largest_error(h, expected, scale)}, rtol)

    def form(j: int, strings: Sequence[Tensor], signless: bool) -> Tensor:
        return _walked(layer, path_graph(strings), j, signless)

    return _compare(layer, strings, form, rtol)


def _walked(layer: StringKernelConv, graph: Data, ngram: int, signless: bool) -> Tensor:
    """The right-hand side of :func:`assert_walks_on_strings`, ``[N, out_channels]``."""
    assert graph.x is not None
    walk = RandomWalkKernelConv(graph.x.size(1), layer.out_channels, ngram).double()
    decays, x = rates(layer, graph), graph.x
    if signless:
        graph, x = absolute(graph), x.abs()
    with torch.no_grad():
        for lin, source in zip(walk.lins, layer.lins, strict=False):
            weight = cast(Tensor, source.weight)
            cast(Tensor, lin.weight).copy_(weight.abs() if signless else weight)
    scales = 1 - decays if layer.normalize else torch.ones_like(decays)
    columns = []
    for k, (decay, scale) in enumerate(zip(decays.t(), scales.t(), strict=True)):
        closed = subsequence_graph(graph, decay)
        weight = scale[closed.edge_index[0]] * closed.edge_weight
        with inferring(walk):
            walked = walk(x, closed.edge_index, edge_weight=weight)[:, k]
        columns.append(decayed_sum((scale * walked).unsqueeze(1), graph, decay.unsqueeze(1)))
    return torch.cat(columns, 1)
