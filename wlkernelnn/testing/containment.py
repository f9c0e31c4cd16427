"""Theorems 2 and 4 in exact arithmetic: deep layers lie in the space of their kernel, within a norm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.blocks.activation import Function
from wlkernelnn.conv.deep import DeepKernelConv
from wlkernelnn.kernels import DeepGraphKernel, DeepStringKernel
from wlkernelnn.kernels.composition import Series, get_composition
from wlkernelnn.sequence import StringKernelConv

from . import deep_graphs, deep_strings
from .calling import largest_error, require, require_float64
from .exact import Activated, rkhs_norm
from .series import PowerSeries, mpmath

Layers = Sequence[DeepKernelConv] | Sequence[StringKernelConv]
Structures = Sequence[Data] | Sequence[Tensor]

# Allowed between float64 and exact values of networks and kernels.
_RTOL = 1e-9


def rkhs_ratios(
    layers: Layers,
    kernel: DeepGraphKernel | DeepStringKernel,
    structures: Structures,
    activation: PowerSeries,
    digits: int = 120,
) -> dict[str, float]:
    """:func:`assert_in_rkhs`, with a number for each kind of state.

    Returns:
        The largest fᵀK⁺f beside its bound, of ``"c"`` (states before the activation), ``"h"`` (after it), and
        for graphs ``"sum"`` (over nodes). That of ``"c"`` is 1 as soon as there are as many nodes as
        features: then c_1 is the smallest function with its values.
    """
    composition = get_composition(kernel.composition)
    if not isinstance(composition, Series):
        raise ValueError(f"the composition must be a power series, got {composition}")
    if len(layers) != kernel.num_layers:
        raise ValueError(f"{len(layers)} layers for a kernel with num_layers={kernel.num_layers}")
    family: Any = deep_strings if isinstance(kernel, DeepStringKernel) else deep_graphs
    for layer in layers:
        require_float64(layer)
        for name, expected in family.expected(kernel).items():
            if getattr(layer, name) != expected:
                raise ValueError(f"{name} is {getattr(layer, name)} of a layer, {expected} of the kernel")
        if layer.decay.decay != kernel.decay:
            raise ValueError(f"decay is {layer.decay.decay} of a layer, {kernel.decay} of the kernel")
        if not isinstance(layer.act, Function) or layer.act.function != activation:
            raise ValueError(f"a layer has the activation {layer.act}, expected act={activation.name}")
    outs, gram = family.in_float64(layers, kernel, structures)
    tightest: dict[str, float] = {}
    with mpmath.workdps(digits):
        for state in family.states(layers, kernel, Activated(activation, composition), structures):
            for channel, values in enumerate(state.values.T):
                norm, outside = rkhs_norm(values, state.kernel)
                bound = state.norms[channel, channel]
                if max(norm, outside) > bound * (1 + mpmath.mpf(10) ** -12):
                    came, left, allowed = (mpmath.nstr(value, 8) for value in (norm, outside, bound))
                    raise AssertionError(
                        f"{state.what}, channel {channel}: squared norm {came}, outside the space {left}; "
                        f"allowed is {allowed}"
                    )
                ratio = float(norm / bound) if bound else 0.0
                tightest[state.kind] = max(tightest.get(state.kind, 0.0), ratio)
        exact_outs = torch.tensor(state.values.astype(np.float64))
        exact_gram = torch.tensor(state.kernel.astype(np.float64))
    require({"the layers beside their exact values": largest_error(outs, exact_outs)}, _RTOL)
    require({"the kernel beside its exact values": largest_error(gram, exact_gram)}, _RTOL)
    return tightest


def assert_in_rkhs(
    layers: Layers,
    kernel: DeepGraphKernel | DeepStringKernel,
    structures: Structures,
    activation: PowerSeries,
    digits: int = 120,
) -> float:
    r"""Theorems 2 and 4: states of deep networks lie in the space of their kernel, with bounded norms.

    For the values f of one channel at all nodes (or, summed, at all graphs), or at all prefixes of all
    strings, and the kernel matrix K there: :math:`f \in \mathrm{range}(K)` and :math:`f^\top K^+ f \le
    G_{ii}`, where G is the Gram matrix of the channels' functions. It is carried along, for graphs by

    .. math::
        P \leftarrow W G W^\top \qquad
        P \leftarrow (W G W^\top) \circ \lambda \hat\sigma(P) \qquad
        G \leftarrow \hat\sigma(U P U^\top) ,

    for strings, whose λ are all in the kernel, by

    .. math::
        P \leftarrow W G W^\top \qquad
        P \leftarrow (W G W^\top) \circ P \qquad
        G \leftarrow \hat\sigma(P) ,

    with :math:`\hat\sigma(k) = \sum_a (s_a^2 / b_a) k^a` (:func:`norms`), for :math:`c_1 … c_n` and h of
    every layer. K is very ill-conditioned, hence exact arithmetic: take few and small graphs or strings. The
    layers in float64 must have these values, and ``kernel`` this Gram, within 1e-9.

    Args:
        layers: A stack of :class:`~wlkernelnn.DeepKernelConv`, or of
            :class:`~wlkernelnn.sequence.StringKernelConv` without gates and highway, in float64, with
            ``activation`` as their ``act`` and a constant decay.
        kernel: Of the same depth, decay, compose, and walk_length and walks_only, or ngram, readout and
            averaged (the layers' ``normalize``); its composition a power series.
        structures: Graphs with float64 ``x``, or strings ``[T_i, d]``; not all empty.
        activation: σ.
        digits: Decimal digits of the arithmetic.

    Returns:
        The largest fᵀK⁺f beside its bound: at most 1.
    """
    return max(rkhs_ratios(layers, kernel, structures, activation, digits).values())
