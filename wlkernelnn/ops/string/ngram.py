"""The decayed scan and the n-gram recurrence, over all strings at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from wlkernelnn.ops.autograd import module_for, optional_module
from wlkernelnn.ops.fast_op import FastOp

from . import ngram_sweeps as sweeps
from .equations import Decay, by_step, ngram_step
from .levels import Levels
from .steps import Steps


def decayed_scan(u: Tensor, decay: Decay, steps: Steps, state: Tensor | None = None) -> Tensor:
    r""":math:`c_t = \lambda_t \odot c_{t-1} + u_t` of every string.

    Args:
        u: ``[N, d]`` in step order.
        decay: λ: a number, ``[d]``, or ``[N, d]`` in step order.
        steps: The strings.
        state: :math:`c_0`, ``[B, d]`` in the order of a step; default 0.

    Returns:
        c behind its state, ``[B + N, d]`` in step order.
    """
    states = None if state is None else state.unsqueeze(0)
    return ngram_scan([u], decay, steps, states, normalize=False)[0]


def ngram_scan(
    u: Sequence[Tensor],
    decay: Decay,
    steps: Steps,
    state: Tensor | None = None,
    compose: str = "mul",
    normalize: bool = True,
) -> tuple[Tensor, ...]:
    r"""The n levels of a string kernel network (Lei et al. 2017, Tables 4 and 5) of every string.

    .. math::
        c_1[t] = \lambda_t c_1[t-1] + s_t u_1[t] \qquad
        c_j[t] = \lambda_t c_j[t-1] + s_t (c_{j-1}[t-1] \circ u_j[t])

    Args:
        u: n tensors ``[N, d]`` in step order.
        decay: λ: a number, ``[d]``, or ``[N, d]`` in step order.
        steps: The strings, or :class:`Levels` of directed acyclic graphs (by plain operations).
        state: :math:`c_1[0] … c_n[0]`, ``[n, B, d]`` in the order of a step; default 0.
        compose: ∘, ``"mul"`` or ``"add"``.
        normalize: s = 1 − λ instead of 1.

    Returns:
        :math:`c_1 … c_n`, each behind its state, ``[B + N, d]`` in step order.
    """
    scan = _plain if isinstance(steps, Levels) else _ngram_scan
    return scan(steps, decay, state, compose, normalize, *u)


triton_scan = partial(optional_module, "wlkernelnn.ops.string.triton_scan")

# The module with the recurrence for a type of device; sweeps are for all others. Under TRITON_INTERPRET=1
# Triton's takes CPU tensors as well.
SCANS: dict[str, Callable[[], Any]] = {"cuda": triton_scan}


def scan_for(u: Tensor) -> Any:
    """The module whose ``ngram`` and ``ngram_gradients`` take such values."""
    return module_for(SCANS, u) or sweeps


def _plain(
    steps: Steps, decay: Decay, state: Tensor | None, compose: str, normalize: bool, *u: Tensor
) -> tuple[Tensor, ...]:
    states = [None] * len(u) if state is None else state.unbind(0)
    return by_step(ngram_step(u, decay, compose, normalize), steps, states, u[0])


def _forward(
    steps: Steps, decay: Decay, state: Tensor | None, compose: str, normalize: bool, *u: Tensor
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    c = scan_for(u[0]).ngram(u, decay, steps, state, compose, normalize)
    return c, c


def _backward(
    values: Sequence[Any],
    c: Sequence[Tensor],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> Sequence[Tensor | None]:
    steps, decay, _, compose, normalize, *u = values
    gradients = scan_for(u[0]).ngram_gradients
    grad_u, grad_decay, grad_state = gradients(u, decay, steps, c, grads, compose, normalize, needed[1])
    return None, grad_decay, grad_state, None, None, *grad_u


_ngram_scan = FastOp(_plain, _forward, _backward)
