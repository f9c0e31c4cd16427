"""What loops compiled by numba have in common; to be imported only where numba is."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch
from numba import config, get_num_threads, njit, set_num_threads, types
from numba.extending import overload

# Products and sums may become one instruction; nothing may be reordered. Divisions never raise: a branch for
# that would keep loops from being vectorised.
OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True}

# Not every threading layer of numba may be entered by two threads at once.
_one_at_a_time = threading.Lock()


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit``, kept on disk where there is a folder to keep it in."""
    options = OPTIONS | options

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written
            return njit(**options)(function)

    return decorate


def chunks_for(work: int, grain: int) -> int:
    """Number of threads, never more than torch's: a loop on one enters no pool (and may follow a fork)."""
    return max(1, min(work // grain, torch.get_num_threads(), config.NUMBA_NUM_THREADS))


def run(kernels: Any, kernel: str, chunks: int, *arguments: Any) -> None:
    """Run ``kernel(chunks, …)`` of a module on threads, or ``kernel_chunk(0, 1, …)`` without any."""
    if chunks == 1:
        getattr(kernels, f"{kernel}_chunk")(0, 1, *arguments)
        return
    with _one_at_a_time, _threads(chunks):
        getattr(kernels, kernel)(chunks, *arguments)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """Parallel kernels of the block run on so many threads of numba's."""
    before = get_num_threads()
    set_num_threads(number)
    try:
        yield
    finally:
        set_num_threads(before)


# Functions of one number

_LOG2E = np.float32(1.44269504)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROUND = np.float32(1.5 * 2**23)  # added and taken away again, it rounds a small float32 to an integer
_LEAST, _MOST = np.float32(-87.3), np.float32(88.3)
_ONE = np.float32(1.0)
_FLAT = np.float32(7.90531110763549805)  # from here on tanh is 1
_A1, _A3, _A5 = map(np.float32, (4.89352456e-3, 6.37261929e-4, 1.48572236e-5))
_A7, _A9, _A11, _A13 = map(np.float32, (5.12229709e-8, -8.60467152e-11, 2.0001879e-13, -2.76076848e-16))
_B0, _B2, _B4, _B6 = map(np.float32, (4.89352519e-3, 2.26843463e-3, 1.18534706e-4, 1.19825839e-6))
_P5, _P4, _P3 = map(np.float32, (1.98756915e-4, 1.39819995e-3, 8.33345191e-3))
_P2, _P1, _P0 = map(np.float32, (4.16657959e-2, 1.66666655e-1, 5.00000012e-1))


@compiled()
def exp32(x: np.float32) -> np.float32:
    """exp of a float32, to about 1 unit in the last place, in operations that vectorise (Cephes' expf)."""
    x = _LEAST if x < _LEAST else x  # written so that NaN stays
    x = _MOST if x > _MOST else x
    shifted = x * _LOG2E + _ROUND
    n = shifted - _ROUND
    x = x - n * _LN2_HIGH - n * _LN2_LOW
    series = ((((_P5 * x + _P4) * x + _P3) * x + _P2) * x + _P1) * x + _P0
    bits = np.float32(shifted).view(np.uint32)  # its last digits are n
    power = np.uint32((bits << np.uint32(23)) + np.uint32(127 << 23)).view(np.float32)
    return (series * (x * x) + x + _ONE) * power


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


@overload(sigmoid, jit_options=cast(Any, OPTIONS))
def _sigmoid(x):  # numba wants no annotations here
    if x == types.float32:
        return lambda x: _ONE / (_ONE + exp32(-x))
    return lambda x: 1.0 / (1.0 + math.exp(-x))


@compiled()
def tanh32(x: np.float32) -> np.float32:
    """tanh of a float32, to about 3 units in the last place, as a quotient of polynomials (Eigen's)."""
    x = -_FLAT if x < -_FLAT else x
    x = _FLAT if x > _FLAT else x
    y = x * x
    above = (((((_A13 * y + _A11) * y + _A9) * y + _A7) * y + _A5) * y + _A3) * y + _A1
    below = ((_B6 * y + _B4) * y + _B2) * y + _B0
    return x * above / below


def tanh(x: float) -> float:
    return math.tanh(x)


@overload(tanh, jit_options=cast(Any, OPTIONS))
def _tanh(x):  # numba wants no annotations here
    if x == types.float32:
        return lambda x: tanh32(x)
    return lambda x: math.tanh(x)
