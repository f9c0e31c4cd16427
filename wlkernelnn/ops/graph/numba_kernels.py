"""The fused sums as loops over edges, compiled by numba; to be imported only where numba is.

Rows are shared out to threads in chunks; no two chunks write to the same place, and what is written depends
on the number of chunks alone. Memory is read by the numbers in ``source``, ``target`` and ``edge_type``: who
calls has checked their range. An empty ``weight`` or ``edge_type`` is one that was not given: edges then
weigh 1, and read row 0 of the tables.

Every kernel takes edges, the values (and for gradients, behind them, that of the sum), its option, and arrays
to write to.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from wlkernelnn.ops.compiled import compiled, sigmoid, tanh

Arrays = tuple[np.ndarray, ...]

MULTIPLY, ADD, RELU, TANH = range(4)


@compiled()
def rows_of(chunk: int, chunks: int, indptr: np.ndarray) -> tuple[int, int]:
    """The first and last row of a chunk; chunks have about equally many rows and edges together."""
    work = indptr + np.arange(indptr.size)
    first = np.searchsorted(work, work[-1] * chunk // chunks)
    return first, np.searchsorted(work, work[-1] * (chunk + 1) // chunks)


# out[v] = Σ w s sigmoid(a[u] + b[v] + G[t]) c[u] F[t]; the option is s


@compiled()
def gated_chunk(chunk: int, chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays) -> None:
    indptr, source, edge_type, weight = edges
    a, b, G, c, F = values
    (out,) = outs
    scale = c.dtype.type(s)
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
def gated(chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays) -> None:
    for chunk in prange(chunks):
        gated_chunk(np.int64(chunk), chunks, edges, values, s, outs)


@compiled()
def gated_by_target_chunk(
    chunk: int, chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays
) -> None:
    indptr, source, edge_type, weight = edges
    a, b, G, c, F, grad = values
    (grad_b,) = outs
    scale = c.dtype.type(s)
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
def gated_by_target(chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays) -> None:
    for chunk in prange(chunks):
        gated_by_target_chunk(np.int64(chunk), chunks, edges, values, s, outs)


@compiled()
def gated_by_source_chunk(
    chunk: int, chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays
) -> None:
    indptr, order, target, edge_type, weight = edges
    a, b, G, c, F, grad = values
    grad_a, grad_G, grad_c, grad_F = outs
    scale = c.dtype.type(s)
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
def gated_by_source(chunks: int, edges: Arrays, values: Arrays, s: float, outs: Arrays) -> None:
    for chunk in prange(chunks):
        gated_by_source_chunk(np.int64(chunk), chunks, edges, values, s, outs)


# out[v] = Σ w f(x[u], T[t]), where f is one of MULTIPLY, ADD, RELU, TANH: the option


@compiled()
def mapped_chunk(chunk: int, chunks: int, edges: Arrays, values: Arrays, kind: int, outs: Arrays) -> None:
    indptr, source, edge_type, weight = edges
    x, table = values
    (out,) = outs
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
def mapped(chunks: int, edges: Arrays, values: Arrays, kind: int, outs: Arrays) -> None:
    for chunk in prange(chunks):
        mapped_chunk(np.int64(chunk), chunks, edges, values, kind, outs)


@compiled()
def mapped_by_source_chunk(
    chunk: int, chunks: int, edges: Arrays, values: Arrays, kind: int, outs: Arrays
) -> None:
    indptr, order, target, edge_type, weight = edges
    x, table, grad = values
    grad_x, grad_table = outs
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
def mapped_by_source(chunks: int, edges: Arrays, values: Arrays, kind: int, outs: Arrays) -> None:
    for chunk in prange(chunks):
        mapped_by_source_chunk(np.int64(chunk), chunks, edges, values, kind, outs)
