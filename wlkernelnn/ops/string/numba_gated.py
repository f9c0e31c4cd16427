"""The gated memory on a CPU: how numba's kernels are run; to be imported only where numba is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.ops import compiled

from . import gated_kernels as kernels
from .equations import GatedCell
from .steps import Steps

DTYPES = (torch.float32, torch.float64)

# Values (parts of tokens) that are worth waking a thread for.
GRAIN = 2**17

# Multiplications of a step from which a product of matrices is faster than a compiled loop.
LOOP_AT_MOST = 2**20


def gated(
    cell: GatedCell, steps: Steps, norm_state: bool, eps: float, parts: Tensor, given: Sequence[Any]
) -> tuple[Tensor, Tensor]:
    """What :func:`wlkernelnn.ops.string.gated_scan` returns, without gradients; squashes the parts."""
    weight, c_0, h_0, *_ = given
    scan = _Scan(cell, steps, norm_state, eps, parts, given)
    c, h = (steps.room(parts[:, : scan.width], before) for before in (c_0, h_0))
    arrays = _array(c), _array(h)
    transposed = _array(scan.weight.t())
    if scan.is_by_step:
        weight_t = weight.t()
        for t, (h_before, _) in enumerate(steps.pairs(h)):
            seen = torch.mm(h_before, weight_t).to(h.dtype)  # autocast makes it another one
            scan.run("forward", t, t + 1, transposed, seen.view(len(seen), -1, scan.width), arrays)
    else:
        seen = parts.new_empty(scan.num_rows, len(scan.weight) // scan.width, scan.width)
        scan.run("forward", 0, len(steps.counts), transposed, seen, arrays)
    return c, h


def gated_gradients(
    cell: GatedCell,
    steps: Steps,
    norm_state: bool,
    eps: float,
    needed: Sequence[bool],
    parts: Tensor,
    given: Sequence[Any],
    found: Sequence[Tensor],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of parts and of all that was given; any that is not needed may be anything."""
    weight, _, _, scale_i, scale_f, *_ = given
    c, h = found
    num_strings = steps.num_strings
    scan = _Scan(cell, steps, norm_state, eps, parts, given)
    grad_c, grad_h = (c.new_zeros(1, scan.width) if grad is None else grad for grad in grads)
    slopes, carried = parts.new_empty(parts.shape), c.new_zeros(num_strings, scan.width)
    sums = c.new_zeros(scan.chunks, 4, scan.width)
    arrays = (*map(_array, (c, grad_c, grad_h)), scan.rows(slopes), *map(_array, (carried, sums)))
    own = _array(scan.weight)
    seeing = slopes[:, parts.size(1) - (0 if weight is None else weight.size(0)) :]
    if scan.is_by_step:
        came = c[:0]
        for t, slopes_t in reversed(list(enumerate(steps.split(seeing)))):
            scan.run("backward", t, t + 1, own, came, arrays)
            came = torch.mm(slopes_t, weight).to(c.dtype)
    else:
        came = c.new_zeros(scan.num_rows, scan.width)
        scan.run("backward", 0, len(steps.counts), own, came, arrays)
    of_weight = seeing.t() @ steps.previous(h) if weight is not None and needed[0] else None
    grad_c_0, grad_h_0 = carried + grad_c[:num_strings], grad_h[:num_strings].expand(carried.shape).clone()
    grad_h_0[: len(came)] += came[:num_strings]
    of_i, of_f, of_gamma, of_beta = sums.sum(0)
    of_scales = of_i.sum_to_size(scale_i.shape), of_f.sum_to_size(scale_f.shape)
    return slopes, of_weight, grad_c_0, grad_h_0, *of_scales, of_gamma, of_beta


class _Scan:
    """What all calls of kernels for a scan have in common."""

    def __init__(
        self, cell: GatedCell, steps: Steps, norm_state: bool, eps: float, parts: Tensor, given: Sequence[Any]
    ) -> None:
        weight, _, _, scale_i, scale_f, gamma, beta = given
        self.num_parts, self.width = len(cell.parts), parts.size(1) // len(cell.parts)
        work = 0 if weight is None else steps.num_strings * weight.numel()
        self.is_by_step = work > LOOP_AT_MOST
        self.weight = parts.new_empty(0, self.width) if weight is None or self.is_by_step else weight
        rows = steps.num_strings if self.is_by_step else steps.num_tokens
        self.chunks = compiled.chunks_for(rows * parts.size(1), GRAIN)
        self.num_rows = 0 if weight is None else steps.num_strings + self.chunks
        places = {"input": -1 if cell.input == "rest" else -3, "forget": -2, "output": -1}
        places |= {name: number for number, name in enumerate(cell.parts) if name in places}
        squashed = cell.input == "rest", cell.squash, cell.squash_output
        layout = (*places.values(), *squashed, gamma is not None, norm_state)
        starts = np.array([0, *itertools.accumulate((steps.num_strings, *steps.counts))])
        self.plan = layout, eps, starts
        one, zero = parts.new_ones(self.width), parts.new_zeros(self.width)
        constants = torch.stack([scale_i.expand(self.width), scale_f.expand(self.width), one])
        norm = torch.stack([one if gamma is None else gamma, zero if beta is None else beta])
        self.tables = self.rows(parts), _array(constants.unsqueeze(0)), _array(norm)

    def rows(self, parts: Tensor) -> np.ndarray:
        return _array(parts.view(len(parts), self.num_parts, self.width))

    def run(
        self, kernel: str, first: int, last: int, weight: Any, product: Tensor, states: tuple[Any, ...]
    ) -> None:
        """For some steps, with the product between them."""
        arguments = *self.plan, weight, product.numpy(), self.tables, states
        compiled.run(kernels, kernel, self.chunks, first, last, *arguments)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().contiguous().numpy()
