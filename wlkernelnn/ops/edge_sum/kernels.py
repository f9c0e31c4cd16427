"""The fused sums as loops over edges, compiled by numba; to be imported only where numba is.

Rows are shared out to threads in chunks; no two chunks write to the same place, and what is written depends
on the number of chunks alone. Memory is read by the numbers in ``source``, ``target`` and ``edge_type``: who
calls has checked their range. An empty ``weight`` or ``edge_type`` is one that was not given: edges then
weigh 1, and read row 0 of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numba import config, get_num_threads, njit, prange, set_num_threads, types
from numba.extending import overload

Arrays = tuple[np.ndarray, ...]

MULTIPLY, ADD, RELU, TANH = range(4)

# Products and sums may become one instruction; nothing may be reordered. Divisions never raise: a branch for
# that would keep loops from being vectorised.
OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy", "nogil": True}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit``, kept on disk where there is a folder to keep it in."""

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return njit(cache=True, **OPTIONS, **options)(function)
        except RuntimeError:  # neither the package's folder nor the user's cache can be written
            return njit(**OPTIONS, **options)(function)

    return decorate


def max_threads() -> int:
    """Size of numba's pool."""
    return config.NUMBA_NUM_THREADS


@contextmanager
def threads(number: int) -> Iterator[None]:
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
_A1, _A3, _A5, _A7, _A9, _A11, _A13 = map(
    np.float32,
    (
        4.89352455891786e-3,
        6.37261928875436e-4,
        1.48572235717979e-5,
        5.12229709037114e-8,
        -8.60467152213735e-11,
        2.00018790482477e-13,
        -2.76076847742355e-16,
    ),
)
_B0, _B2, _B4, _B6 = map(
    np.float32, (4.89352518554385e-3, 2.26843463243900e-3, 1.18534705686654e-4, 1.19825839466702e-6)
)
_P5, _P4, _P3, _P2, _P1, _P0 = map(
    np.float32,
    (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)


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


# Which rows, which edges


@compiled()
def rows_of(chunk: int, chunks: int, indptr: np.ndarray) -> tuple[int, int]:
    """The first and last row of a chunk; chunks have about equally many rows and edges together."""
    rows = indptr.size - 1
    cuts = np.zeros(2, np.int64)
    for i in range(2):
        share = (indptr[rows] + rows) * (chunk + i) // chunks
        low, high = 0, rows
        while low < high:
            middle = (low + high) // 2
            if indptr[middle] + middle < share:
                low = middle + 1
            else:
                high = middle
        cuts[i] = low
    return cuts[0], cuts[1]


@compiled()
def by_source(source: np.ndarray, num_sources: int) -> tuple[np.ndarray, np.ndarray]:
    """Pointers and order of the edges by source: a counting sort, edges of a source keep their order."""
    indptr = np.zeros(num_sources + 1, np.int64)
    for u in source:
        indptr[u + 1] += 1
    for u in range(num_sources):
        indptr[u + 1] += indptr[u]
    free, order = indptr.copy(), np.empty(source.size, np.int64)
    for e in range(source.size):
        order[free[source[e]]] = e
        free[source[e]] += 1
    return indptr, order


# out[v] = Σ w s sigmoid(a[u] + b[v] + G[t]) c[u] F[t]


@compiled()
def gated_chunk(
    chunk: int, chunks: int, edges: Arrays, scale: np.floating, values: Arrays, out: np.ndarray
) -> None:
    indptr, source, edge_type, weight = edges
    a, b, G, c, F = values
    first, last = rows_of(chunk, chunks, indptr)
    for v in range(first, last):
        b_v, out_v = b[v], out[v]
        out_v[:] = 0
        for e in range(indptr[v], indptr[v + 1]):
            u = source[e]
            t = edge_type[e] if edge_type.size else 0
            w = scale * weight[e] if weight.size else scale
            a_u, G_t, c_u, F_t = a[u], G[t], c[u], F[t]
            for k in range(out_v.size):
                out_v[k] += w * sigmoid(a_u[k] + b_v[k] + G_t[k]) * c_u[k] * F_t[k]


@compiled(parallel=True)
def gated(chunks: int, edges: Arrays, scale: np.floating, values: Arrays, out: np.ndarray) -> None:
    for chunk in prange(chunks):
        gated_chunk(chunk, chunks, edges, scale, values, out)


@compiled()
def gated_by_target_chunk(
    chunk: int,
    chunks: int,
    edges: Arrays,
    scale: np.floating,
    values: Arrays,
    grad: np.ndarray,
    grad_b: np.ndarray,
) -> None:
    indptr, source, edge_type, weight = edges
    a, b, G, c, F = values
    first, last = rows_of(chunk, chunks, indptr)
    for v in range(first, last):
        b_v, grad_v, total = b[v], grad[v], grad_b[v]
        total[:] = 0
        for e in range(indptr[v], indptr[v + 1]):
            u = source[e]
            t = edge_type[e] if edge_type.size else 0
            w = scale * weight[e] if weight.size else scale
            a_u, G_t, c_u, F_t = a[u], G[t], c[u], F[t]
            for k in range(total.size):
                gate = sigmoid(a_u[k] + b_v[k] + G_t[k])
                message = w * gate * c_u[k] * F_t[k]
                total[k] += message - gate * message
        for k in range(total.size):
            total[k] *= grad_v[k]


@compiled(parallel=True)
def gated_by_target(
    chunks: int, edges: Arrays, scale: np.floating, values: Arrays, grad: np.ndarray, grad_b: np.ndarray
) -> None:
    for chunk in prange(chunks):
        gated_by_target_chunk(chunk, chunks, edges, scale, values, grad, grad_b)


@compiled()
def gated_by_source_chunk(
    chunk: int,
    chunks: int,
    edges: Arrays,
    scale: np.floating,
    values: Arrays,
    grad: np.ndarray,
    grads: Arrays,
) -> None:
    indptr, order, target, edge_type, weight = edges
    a, b, G, c, F = values
    grad_a, grad_G, grad_c, grad_F = grads
    first, last = rows_of(chunk, chunks, indptr)
    for u in range(first, last):
        a_u, c_u, total_a, total_c = a[u], c[u], grad_a[u], grad_c[u]
        total_a[:] = 0
        total_c[:] = 0
        for i in range(indptr[u], indptr[u + 1]):
            e = order[i]
            v = target[e]
            w = scale * weight[e] if weight.size else scale
            b_v, grad_v = b[v], grad[v]
            if edge_type.size:
                t = edge_type[e]
                G_t, F_t, total_G, total_F = G[t], F[t], grad_G[chunk, t], grad_F[chunk, t]
                for k in range(a_u.size):
                    gate = sigmoid(a_u[k] + b_v[k] + G_t[k])
                    passed = w * gate * grad_v[k]
                    message = passed * c_u[k]
                    total_F[k] += message
                    message *= F_t[k]
                    slope = message - gate * message
                    total_c[k] += passed * F_t[k]
                    total_a[k] += slope
                    total_G[k] += slope
            else:
                for k in range(a_u.size):
                    gate = sigmoid(a_u[k] + b_v[k])
                    passed = w * gate * grad_v[k]
                    message = passed * c_u[k]
                    total_c[k] += passed
                    total_a[k] += message - gate * message


@compiled(parallel=True)
def gated_by_source(
    chunks: int, edges: Arrays, scale: np.floating, values: Arrays, grad: np.ndarray, grads: Arrays
) -> None:
    for chunk in prange(chunks):
        gated_by_source_chunk(chunk, chunks, edges, scale, values, grad, grads)


# out[v] = Σ w f(x[u], T[t]), where f is one of MULTIPLY, ADD, RELU, TANH


@compiled()
def mapped_chunk(chunk: int, chunks: int, edges: Arrays, kind: int, values: Arrays, out: np.ndarray) -> None:
    indptr, source, edge_type, weight = edges
    x, table = values
    zero, one = x.dtype.type(0), x.dtype.type(1)
    first, last = rows_of(chunk, chunks, indptr)
    for v in range(first, last):
        out_v = out[v]
        out_v[:] = 0
        for e in range(indptr[v], indptr[v + 1]):
            x_u, T_t = x[source[e]], table[edge_type[e]]
            w = weight[e] if weight.size else one
            if kind == MULTIPLY:
                for k in range(out_v.size):
                    out_v[k] += w * x_u[k] * T_t[k]
            elif kind == ADD:
                for k in range(out_v.size):
                    out_v[k] += w * (x_u[k] + T_t[k])
            elif kind == RELU:
                for k in range(out_v.size):
                    z = x_u[k] + T_t[k]
                    out_v[k] += w * (zero if z <= zero else z)  # written so that NaN stays
            else:
                for k in range(out_v.size):
                    out_v[k] += w * tanh(x_u[k] + T_t[k])


@compiled(parallel=True)
def mapped(chunks: int, edges: Arrays, kind: int, values: Arrays, out: np.ndarray) -> None:
    for chunk in prange(chunks):
        mapped_chunk(chunk, chunks, edges, kind, values, out)


@compiled()
def mapped_by_source_chunk(
    chunk: int, chunks: int, edges: Arrays, kind: int, values: Arrays, grad: np.ndarray, grads: Arrays
) -> None:
    indptr, order, target, edge_type, weight = edges
    x, table = values
    grad_x, grad_table = grads
    zero, one = x.dtype.type(0), x.dtype.type(1)
    first, last = rows_of(chunk, chunks, indptr)
    for u in range(first, last):
        x_u, total_x = x[u], grad_x[u]
        total_x[:] = 0
        for i in range(indptr[u], indptr[u + 1]):
            e = order[i]
            t = edge_type[e]
            T_t, grad_v, total_T = table[t], grad[target[e]], grad_table[chunk, t]
            w = weight[e] if weight.size else one
            if kind == MULTIPLY:
                for k in range(x_u.size):
                    total_x[k] += w * grad_v[k] * T_t[k]
                    total_T[k] += w * grad_v[k] * x_u[k]
                continue
            for k in range(x_u.size):
                z = x_u[k] + T_t[k]
                passed = w * grad_v[k]
                if kind == RELU:
                    passed = zero if z <= zero else passed
                elif kind == TANH:
                    y = tanh(z)
                    passed -= passed * y * y
                total_x[k] += passed
                total_T[k] += passed


@compiled(parallel=True)
def mapped_by_source(
    chunks: int, edges: Arrays, kind: int, values: Arrays, grad: np.ndarray, grads: Arrays
) -> None:
    for chunk in prange(chunks):
        mapped_by_source_chunk(chunk, chunks, edges, kind, values, grad, grads)
