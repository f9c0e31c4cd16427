"""The fused sums as kernels of Triton; to be imported only where Triton is.

All work alike. A program takes one row and a block of its channels, and walks over the row's edges a few at a
time; every edge brings the numbers of its source u, target v and type t, by which rows of the values are
gathered. So the same kernel sums by target, by source or by type: what differs is the order of the edges and
``indptr``, which says where each row's edges begin. Every row is written once, by one program, without
atomics: results don't change from run to run, and a row of very many edges keeps its program waiting for as
long. A value or result that is ``None`` is left out when the kernel is compiled. Arithmetic is in ``ACC``:
float64 for float64, float32 for everything else.

Bytes, for N nodes on both sides, K channels of 4 bytes, and gathers that find a neighbour's row in a cache
(E rows instead of N where none do; E · 24 bytes of indices, small beside K): the gated sum reads a, b, c and
writes one result, 16 NK; its gradients by target read a, b, c, grad and write one, 20 NK, those by source
write two, 24 NK, those by type write next to nothing, 16 NK.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _rows(values, index, real, width, ACC: tl.constexpr, BLOCK: tl.constexpr):
    """The program's channels of some rows, zeros where ``real`` is false."""
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = real[:, None] & (k < width)[None, :]
    return tl.load(values + index[:, None] * width + k[None, :], mask=mask, other=0.0).to(ACC)


@triton.jit
def _write(out, total, width, BLOCK: tl.constexpr):
    if out is not None:
        k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        place = out + tl.program_id(0).to(tl.int64) * width + k
        tl.store(place, total.to(out.dtype.element_ty), mask=k < width)


@triton.jit
def _total(messages, real):
    # Not by their zeros alone: a row of infinities or NaN meets them as well.
    return tl.sum(tl.where(real[:, None], messages, 0.0), axis=0)


@triton.jit
def _numbers(index, e, real):
    """Numbers of rows, as int64: a row may begin beyond 2^31 values."""
    return tl.load(index + e, mask=real, other=0).to(tl.int64)


@triton.jit
def _edges(source, target, edge_type, weight, start, last, ACC: tl.constexpr, EDGES: tl.constexpr):
    """Some edges of a row: which are real, their sources, targets and types, and their weights."""
    e = start + tl.arange(0, EDGES)
    real = e < last
    u, v = _numbers(source, e, real), _numbers(target, e, real)
    t = u if edge_type is None else _numbers(edge_type, e, real)
    weights = tl.where(real, 1.0, 0.0) if weight is None else tl.load(weight + e, mask=real, other=0.0)
    return real, u, v, t, weights.to(ACC)[:, None]


@triton.jit
def _tanh(x):
    """tanh, by exponentials, and near zero, where these cancel, by Lambert's continued fraction."""
    size = tl.abs(x)
    power = tl.exp(-2.0 * size)
    far = (1.0 - power) / (1.0 + power)
    near = tl.where(size < 0.5, x, 0.0)
    y = near * near
    above = ((y + 378.0) * y + 17325.0) * y + 135135.0
    below = ((28.0 * y + 3150.0) * y + 62370.0) * y + 135135.0
    return tl.where(size < 0.5, near * above / below, tl.where(x < 0.0, -far, far))


# out[v] = Σ w s sigmoid(a[u] + b[v] + G[t]) c[u] F[t]


@triton.jit
def _gate(a, b, G, u, v, t, real, width, ACC: tl.constexpr, BLOCK: tl.constexpr):
    logits = _rows(a, u, real, width, ACC, BLOCK) + _rows(b, v, real, width, ACC, BLOCK)
    if G is not None:
        logits += _rows(G, t, real, width, ACC, BLOCK)
    return 1.0 / (1.0 + tl.exp(-logits))


@triton.jit
def gated(
    indptr, source, target, edge_type, weight, a, b, G, c, F, out,
    width, SCALE: tl.constexpr, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total = tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        real, u, v, t, w = _edges(source, target, edge_type, weight, start, last, ACC, EDGES)
        message = _gate(a, b, G, u, v, t, real, width, ACC, BLOCK) * _rows(c, u, real, width, ACC, BLOCK)
        if F is not None:
            message *= _rows(F, t, real, width, ACC, BLOCK)
        total += _total(w * SCALE * message, real)
    _write(out, total, width, BLOCK)


@triton.jit
def gated_gradients(
    indptr, source, target, edge_type, weight, a, b, G, c, F, grad, of_gate, of_c, of_F,
    width, SCALE: tl.constexpr, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of the gradients of edges: of what stands in the gate, of c[u] and of F[t]."""
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total_gate, total_c, total_F = tl.zeros([BLOCK], ACC), tl.zeros([BLOCK], ACC), tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        real, u, v, t, w = _edges(source, target, edge_type, weight, start, last, ACC, EDGES)
        gate = _gate(a, b, G, u, v, t, real, width, ACC, BLOCK)
        passed = w * SCALE * gate * _rows(grad, v, real, width, ACC, BLOCK)
        c_u = _rows(c, u, real, width, ACC, BLOCK)
        if of_F is not None:
            total_F += _total(passed * c_u, real)
        if F is not None:
            passed *= _rows(F, t, real, width, ACC, BLOCK)
        if of_c is not None:
            total_c += _total(passed, real)
        if of_gate is not None:
            total_gate += _total((1.0 - gate) * passed * c_u, real)
    _write(of_gate, total_gate, width, BLOCK)
    _write(of_c, total_c, width, BLOCK)
    _write(of_F, total_F, width, BLOCK)


# out[v] = Σ w f(x[u], T[t]), where f is one of MULTIPLY, ADD, RELU, TANH


@triton.jit
def mapped(
    indptr, source, target, edge_type, weight, x, table, out,
    width, KIND: tl.constexpr, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total = tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        real, u, _, t, w = _edges(source, target, edge_type, weight, start, last, ACC, EDGES)
        x_u, T_t = _rows(x, u, real, width, ACC, BLOCK), _rows(table, t, real, width, ACC, BLOCK)
        message = x_u * T_t if KIND == "MULTIPLY" else x_u + T_t
        if KIND == "RELU":
            message = tl.where(message <= 0.0, 0.0, message)  # written so that NaN stays
        elif KIND == "TANH":
            message = _tanh(message)
        total += _total(w * message, real)
    _write(out, total, width, BLOCK)


@triton.jit
def mapped_gradients(
    indptr, source, target, edge_type, weight, x, table, grad, of_x, of_table,
    width, KIND: tl.constexpr, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of the gradients of edges: of x[u] and of T[t]."""
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total_x, total_table = tl.zeros([BLOCK], ACC), tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        real, u, v, t, w = _edges(source, target, edge_type, weight, start, last, ACC, EDGES)
        x_u, T_t = _rows(x, u, real, width, ACC, BLOCK), _rows(table, t, real, width, ACC, BLOCK)
        passed = w * _rows(grad, v, real, width, ACC, BLOCK)
        if KIND == "RELU":
            passed = tl.where(x_u + T_t <= 0.0, 0.0, passed)
        elif KIND == "TANH":
            y = _tanh(x_u + T_t)
            passed -= passed * y * y
        if of_x is not None:
            total_x += _total(passed * T_t if KIND == "MULTIPLY" else passed, real)
        if of_table is not None:
            total_table += _total(passed * x_u if KIND == "MULTIPLY" else passed, real)
    _write(of_x, total_x, width, BLOCK)
    _write(of_table, total_table, width, BLOCK)


# out[i] = Σ w x[index[k]] over the places k of i


@triton.jit
def gathered(
    indptr, index, weight, x, out, width, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total = tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        k = start + tl.arange(0, EDGES)
        real = k < last
        found = _rows(x, _numbers(index, k, real), real, width, ACC, BLOCK)
        if weight is not None:
            found *= tl.load(weight + k, mask=real, other=0.0).to(ACC)[:, None]
        total += _total(found, real)
    _write(out, total, width, BLOCK)


# out[i] = Σ values[j] over the rows j of i


@triton.jit
def row_sums(
    indptr, values, out, width, ACC: tl.constexpr, EDGES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    first, last = tl.load(indptr + row), tl.load(indptr + row + 1)
    total = tl.zeros([BLOCK], ACC)
    for start in range(first, last, EDGES):
        j = start + tl.arange(0, EDGES)
        real = j < last
        total += _total(_rows(values, j.to(tl.int64), real, width, ACC, BLOCK), real)
    _write(out, total, width, BLOCK)
