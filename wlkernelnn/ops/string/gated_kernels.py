"""The gated memory but for large products, compiled by numba; to be imported only where numba is.

Both ways a token is read and written once, whatever its cell, which is a ``Layout``. Parts are
``[N, parts, d]``, c̃ first; an i, f or o that is not a gate is read from a row of constants. Rows are those of
the step order, of c and h behind their states; step t begins at ``starts[t + 1]`` there. Strings are shared
out to threads, one by one in turn. Rows are named by numbers: a view costs as much as the work on a row.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from wlkernelnn.ops.compiled import compiled, sigmoid, tanh

# Which parts i, f and o are, or, counted from the end, which of the constants. Whether i is 1 − f, φ and ψ
# are tanh, c is normed, and so carried.
Layout = tuple[int, int, int, bool, bool, bool, bool, bool]
Arrays = tuple[np.ndarray, ...]

# Sums may be taken in any order.
_SUMS = {"fastmath": {"contract", "reassoc"}}


@compiled(**_SUMS)
def mean(x: np.ndarray) -> np.floating:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k]
    return total / x.dtype.type(x.size)


@compiled(**_SUMS)
def mean_product(x: np.ndarray, y: np.ndarray) -> np.floating:
    total = x.dtype.type(0)
    for k in range(x.size):
        total += x[k] * y[k]
    return total / x.dtype.type(x.size)


@compiled()
def normalize(x: np.ndarray, eps: float) -> np.floating:
    """Bring x to mean 0 and variance 1; by what it was multiplied for this."""
    middle = mean(x)
    for k in range(x.size):
        x[k] -= middle
    scale = x.dtype.type(1) / np.sqrt(mean_product(x, x) + x.dtype.type(eps))
    for k in range(x.size):
        x[k] *= scale
    return scale


@compiled()
def squash(is_tanh: bool, values: np.ndarray, v: int) -> None:
    """c̃ and the gates of row v, from what is in their places."""
    d = values.shape[2]
    if is_tanh:
        for k in range(d):
            values[v, 0, k] = tanh(values[v, 0, k])
    for p in range(1, values.shape[1]):
        for k in range(d):
            values[v, p, k] = sigmoid(values[v, p, k])


@compiled()
def add_products(
    out: np.ndarray, r: int, s: int, x: np.ndarray, u: int, v: int, k: int, weight: np.ndarray, row: int
) -> None:
    """Eight terms of ``out[r] += x[u] @ weight`` and of ``out[s] += x[v] @ weight``.

    Those are columns k … of x and the rows from ``row`` of the weight. So many stay in registers.
    """
    a0, a1, a2, a3 = x[u, k], x[u, k + 1], x[u, k + 2], x[u, k + 3]
    a4, a5, a6, a7 = x[u, k + 4], x[u, k + 5], x[u, k + 6], x[u, k + 7]
    b0, b1, b2, b3 = x[v, k], x[v, k + 1], x[v, k + 2], x[v, k + 3]
    b4, b5, b6, b7 = x[v, k + 4], x[v, k + 5], x[v, k + 6], x[v, k + 7]
    for j in range(out.shape[1]):
        w0, w1, w2, w3 = weight[row, j], weight[row + 1, j], weight[row + 2, j], weight[row + 3, j]
        w4, w5, w6, w7 = weight[row + 4, j], weight[row + 5, j], weight[row + 6, j], weight[row + 7, j]
        out[r, j] += a0 * w0 + a1 * w1 + a2 * w2 + a3 * w3 + a4 * w4 + a5 * w5 + a6 * w6 + a7 * w7
        out[s, j] += b0 * w0 + b1 * w1 + b2 * w2 + b3 * w3 + b4 * w4 + b5 * w5 + b6 * w6 + b7 * w7


@compiled()
def multiply(
    chunk: int, chunks: int, out: np.ndarray, x: np.ndarray, first: int, count: int, weight: np.ndarray
) -> None:
    """``out[s] = x[first + s] @ weight`` for this chunk's strings of ``count``.

    The last columns of x are those that the weight meets. ``out`` has a row to spare for every chunk.
    """
    num_rows, blind = weight.shape[0], x.shape[1] - weight.shape[0]
    for s in range(chunk, count, chunks):
        for j in range(out.shape[1]):
            out[s, j] = 0
    whole = num_rows - num_rows % 8
    for row in range(0, whole, 8):
        for s in range(chunk, count, 2 * chunks):
            other = s + chunks
            if other < count:
                add_products(out, s, other, x, first + s, first + other, blind + row, weight, row)
            else:
                spare = out.shape[0] - 1 - chunk
                add_products(out, s, spare, x, first + s, first + s, blind + row, weight, row)
    for s in range(chunk, count, chunks):
        for row in range(whole, num_rows):
            factor = x[first + s, blind + row]
            for j in range(out.shape[1]):
                out[s, j] += factor * weight[row, j]


@compiled()
def forward_chunk(
    chunk: int, chunks: int, first: int, last: int, layout: Layout, eps: float, starts: np.ndarray,
    weight: np.ndarray, seen: np.ndarray, tables: Arrays, states: Arrays,
) -> None:  # fmt: skip
    """Steps ``first`` up to ``last``; the logits of parts become their values.

    ``seen […, seeing, d]`` is U h for one step, or, with the weight U transposed, where to put it. Tables are
    parts, constants, and scale and shift of the norm; states are c and h.
    """
    c, h = states
    part_i, part_f, part_o, is_rest, is_tanh, is_tanh_output, is_normed, is_norm_carried = layout
    parts, constants, norm = tables
    d, num_parts = parts.shape[2], parts.shape[1]
    blind = num_parts - seen.shape[1]
    one = c.dtype.type(1)
    room = np.empty((2, 1, d), c.dtype)
    rest, y = room[:1], room[1, 0]
    of_i = rest if is_rest else parts if part_i >= 0 else constants
    of_f = parts if part_f >= 0 else constants
    of_o = parts if part_o >= 0 else constants
    for t in range(first, last):
        before, now = starts[t], starts[t + 1]
        if weight.size:
            multiply(chunk, chunks, seen.reshape(len(seen), -1), h, before, starts[t + 2] - now, weight)
        for s in range(chunk, starts[t + 2] - now, chunks):
            token, c_before, c_now = now - starts[1] + s, before + s, now + s
            for p in range(blind, num_parts):
                for k in range(d):
                    parts[token, p, k] += seen[s, p - blind, k]
            squash(is_tanh, parts, token)
            i, f, o = token if part_i >= 0 else 0, token if part_f >= 0 else 0, token if part_o >= 0 else 0
            if is_rest:
                for k in range(d):
                    rest[0, 0, k] = one - of_f[f, part_f, k]
            for k in range(d):
                y[k] = of_i[i, part_i, k] * parts[token, 0, k] + of_f[f, part_f, k] * c[c_before, k]
                c[c_now, k] = y[k]
            if is_normed:
                normalize(y, eps)
                for k in range(d):
                    y[k] = y[k] * norm[0, k] + norm[1, k]
                    if is_norm_carried:
                        c[c_now, k] = y[k]
            if is_tanh_output:
                for k in range(d):
                    y[k] = tanh(y[k])
            for k in range(d):
                h[c_now, k] = of_o[o, part_o, k] * y[k]


@compiled(parallel=True)
def forward(chunks, first, last, layout, eps, starts, weight, seen, tables, states):
    for chunk in prange(chunks):
        forward_chunk(np.int64(chunk), chunks, first, last, layout, eps, starts, weight, seen, tables, states)


@compiled()
def backward_chunk(
    chunk: int, chunks: int, first: int, last: int, layout: Layout, eps: float, starts: np.ndarray,
    weight: np.ndarray, came: np.ndarray, tables: Arrays, states: Arrays,
) -> None:  # fmt: skip
    """Steps from ``last`` back to ``first``, to the gradients of all parts, ``slopes``.

    ``came`` is what the step after sent to h, and then, with the weight U, what is sent to the h before;
    ``carried`` is the same of c. ``sums [chunks, 4, d]`` take the gradients of constants and norm. Of
    ``grad_c`` and ``grad_h`` there is one row, of 0, or all.
    """
    c, grad_c, grad_h, slopes, carried, sums = states
    part_i, part_f, part_o, is_rest, is_tanh, is_tanh_output, is_normed, is_norm_carried = layout
    parts, constants, norm = tables
    d = parts.shape[2]
    one, zero = c.dtype.type(1), c.dtype.type(0)
    room = np.empty((5, 1, d), c.dtype)
    rest, dh, dy, x, y = room[:1], room[1, 0], room[2, 0], room[3, 0], room[4, 0]
    of_i = rest if is_rest else parts if part_i >= 0 else constants
    of_f = parts if part_f >= 0 else constants
    of_o = parts if part_o >= 0 else constants
    for t in range(last - 1, first - 1, -1):
        before, now = starts[t], starts[t + 1]
        for s in range(chunk, starts[t + 2] - now, chunks):
            token, c_before, c_now = now - starts[1] + s, before + s, now + s
            i, f, o = token if part_i >= 0 else 0, token if part_f >= 0 else 0, token if part_o >= 0 else 0
            if is_rest:
                for k in range(d):
                    rest[0, 0, k] = one - of_f[f, part_f, k]
            # What has come to h and to c.
            of_h = c_now if grad_h.shape[0] > 1 else 0
            for k in range(d):
                dh[k] = grad_h[of_h, k]
            if s < came.shape[0]:
                for k in range(d):
                    dh[k] += came[s, k]
            of_c = c_now if grad_c.shape[0] > 1 else 0
            for k in range(d):
                carried[s, k] += grad_c[of_c, k]
            # What h was made of, again.
            scale = one
            if is_norm_carried:
                for k in range(d):
                    x[k] = of_i[i, part_i, k] * parts[token, 0, k] + of_f[f, part_f, k] * c[c_before, k]
            else:
                for k in range(d):
                    x[k] = c[c_now, k]
            if is_normed:
                scale = normalize(x, eps)
            for k in range(d):
                y[k] = x[k] * norm[0, k] + norm[1, k]
            if is_tanh_output:
                for k in range(d):
                    y[k] = tanh(y[k])
            # From h to o, and to what ψ has seen.
            if part_o >= 0:
                for k in range(d):
                    gate = parts[token, part_o, k]
                    slopes[token, part_o, k] = dh[k] * y[k] * (gate - gate * gate)
            for k in range(d):
                dy[k] = dh[k] * of_o[o, part_o, k] * (one - y[k] * y[k] if is_tanh_output else one)
            # Through the norm, to c.
            if is_normed:
                if is_norm_carried:
                    for k in range(d):
                        dy[k] += carried[s, k]
                        carried[s, k] = zero
                for k in range(d):
                    sums[chunk, 2, k] += dy[k] * x[k]
                    sums[chunk, 3, k] += dy[k]
                    dy[k] *= norm[0, k]
                middle, along = mean(dy), mean_product(dy, x)
                for k in range(d):
                    dy[k] = scale * (dy[k] - middle - along * x[k])
            for k in range(d):
                dy[k] += carried[s, k]
            # To c̃ and its gates, and to the c before.
            for k in range(d):
                new = parts[token, 0, k]
                slopes[token, 0, k] = dy[k] * of_i[i, part_i, k] * (one - new * new if is_tanh else one)
            if part_i >= 0:
                for k in range(d):
                    gate = parts[token, part_i, k]
                    slopes[token, part_i, k] = dy[k] * parts[token, 0, k] * (gate - gate * gate)
            elif not is_rest:
                for k in range(d):
                    sums[chunk, 0, k] += dy[k] * parts[token, 0, k]
            if part_f >= 0:
                for k in range(d):
                    gate, new = parts[token, part_f, k], parts[token, 0, k] if is_rest else zero
                    slopes[token, part_f, k] = dy[k] * (c[c_before, k] - new) * (gate - gate * gate)
            else:
                for k in range(d):
                    sums[chunk, 1, k] += dy[k] * c[c_before, k]
            for k in range(d):
                carried[s, k] = dy[k] * of_f[f, part_f, k]
        if weight.size:
            flat = slopes.reshape(len(slopes), -1)
            multiply(chunk, chunks, came, flat, now - starts[1], starts[t + 2] - now, weight)


@compiled(parallel=True)
def backward(chunks, first, last, layout, eps, starts, weight, came, tables, states):
    for chunk in prange(chunks):
        backward_chunk(
            np.int64(chunk), chunks, first, last, layout, eps, starts, weight, came, tables, states
        )
