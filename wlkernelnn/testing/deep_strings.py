"""Theorem 2: the recursions of section 2.2, of a network, of its kernel, and of norms, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.kernels import DeepStringKernel
from wlkernelnn.sequence import StringKernelConv

from .exact import Activated, State, exact
from .series import mpmath
from .string_laws import read
from .string_layers import prefixes


def expected(kernel: DeepStringKernel) -> dict[str, Any]:
    """What a layer must be to go with a kernel."""
    variant = {"compose": kernel.compose, "normalize": kernel.averaged, "readout": kernel.readout}
    return {"ngram": kernel.ngram, **variant, "feedback": False, "highway": None}


def states(
    layers: Sequence[StringKernelConv],
    kernel: DeepStringKernel,
    activated: Activated,
    strings: Sequence[Tensor],
) -> Iterator[State]:
    """All states of a network at all tokens, in exact arithmetic."""
    x, (decayed, shifted) = exact(torch.cat(list(strings))), _moves(strings, kernel.decay)
    if kernel.averaged:
        decayed = decayed * (1 - mpmath.mpf(kernel.decay))
    # States, kernels and norms go the same way: what is new is joined to what was there.
    joined, nothing = (np.multiply, np.ones) if kernel.compose == "mul" else (np.add, np.zeros)
    h, k_base, norms_base = x, x @ x.T, exact(np.eye(x.shape[1]))
    for depth, layer in enumerate(layers, 1):
        # Of the empty pattern, which all strings have: c_0 = 1, or in sums 0.
        before, k_before, gram = (exact(nothing(shape)) for shape in ((len(x), 1), (len(x), len(x)), (1, 1)))
        sums: list[Any] = []
        for j, lin in enumerate(layer.lins, 1):
            weight = exact(cast(Tensor, lin.weight))
            c = decayed @ joined(before, h @ weight.T)
            k = decayed @ joined(k_before, k_base) @ decayed.T
            gram = joined(gram, weight @ norms_base @ weight.T)
            yield State("c", f"c_{j} of layer {depth}", c, k, gram)
            before, k_before = shifted @ c, shifted @ k @ shifted.T
            sums = [c, k, gram] if j == 1 else [a + b for a, b in zip(sums, (c, k, gram), strict=True)]
        c, k, gram = sums if kernel.readout == "sum" else (c, k, gram)
        h, k_base, norms_base = activated.values(c), activated.kernel(k), activated.norms(gram)
        yield State("h", f"h of layer {depth}", h, k_base, norms_base)


def _moves(strings: Sequence[Tensor], decay: float) -> tuple[np.ndarray, np.ndarray]:
    """As matrices ``[N, N]``: Σ_{i ≤ t} λ^{t−i} inside a string, and the token before."""
    string = np.repeat(np.arange(len(strings)), [len(tokens) for tokens in strings])
    place = np.arange(len(string))
    behind = place[:, None] - place
    inside = string[:, None] == string
    decayed = exact(np.zeros_like(behind))
    for t, i in zip(*np.nonzero(inside & (behind >= 0)), strict=True):
        decayed[t, i] = mpmath.mpf(decay) ** int(behind[t, i])
    return decayed, exact(inside & (behind == 1))


def in_float64(
    layers: Sequence[StringKernelConv], kernel: DeepStringKernel, strings: Sequence[Tensor]
) -> tuple[Tensor, Tensor]:
    """What layers and kernel themselves make of the last state: h at all tokens, and the Gram of prefixes."""
    read_so_far = list(strings)
    for layer in layers:
        read_so_far = read(layer, read_so_far)[0]
    return torch.cat(read_so_far), torch.as_tensor(np.asarray(kernel(prefixes(strings))))
