"""The n-gram recurrence as kernels of Triton; to be imported only where Triton is.

A program takes one string and a block of its channels, keeps all levels in registers, and walks over the
tokens; what the next steps read is fetched while it computes. Rows are those of the step order behind a step
of states: step t begins at row ``starts[t]``, the states being step 0, or at t times the number of strings
where these are equally long. Backwards, the levels before each token are read where the forward pass wrote
them: they are its results, so nothing is kept for this. Nothing is added up by atomics. Arithmetic is in
``ACC``: float64 for float64, float32 for everything else.

Bytes per token and channel of 4 bytes, for n levels and a λ per step: forwards u and λ are read and c is
written, 4 (2n + 1); backwards u, λ, c and the gradient of c are read, and those of u and λ are written,
4 (4n + 2).
"""

# Tuples grow by additions: Triton knows no starred expressions.
# ruff: noqa: RUF005
# mypy: disable-error-code="assignment"
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _read(values, row, width, ACC: tl.constexpr, BLOCK: tl.constexpr):
    """The program's channels of a row."""
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    return tl.load(values + row * width + k, mask=k < width, other=0.0).to(ACC)


@triton.jit
def _write(out, row, value, width, BLOCK: tl.constexpr):
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + row * width + k, value.to(out.dtype.element_ty), mask=k < width)


@triton.jit
def _row(starts, t, num_strings):
    """The program's row of a step. As t it is an int64: rows may begin beyond 2^31 values."""
    string = tl.program_id(0).to(tl.int64)
    return (t * num_strings if starts is None else tl.load(starts + t)) + string


@triton.jit
def ngram(
    u, decay, state, c, starts, lengths, num_strings, width,
    PER_STEP: tl.constexpr, MULTIPLY: tl.constexpr, NORMALIZE: tl.constexpr,
    LEVELS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    string = tl.program_id(0).to(tl.int64)
    before = ()
    for j in tl.static_range(LEVELS):
        if state is None:
            first = tl.zeros([BLOCK], ACC)
        else:
            first = _read(state, j * num_strings + string, width, ACC, BLOCK)
        _write(c[j], string, first, width, BLOCK)
        before = before + (first,)
    factor = tl.zeros([BLOCK], ACC) if PER_STEP else _read(decay, 0, width, ACC, BLOCK)
    for t in tl.range(1, tl.load(lengths + string) + 1, num_stages=STAGES):
        row = _row(starts, t, num_strings)
        token = row - num_strings
        if PER_STEP:
            factor = _read(decay, token, width, ACC, BLOCK)
        now = ()
        for j in tl.static_range(LEVELS):
            new = _read(u[j], token, width, ACC, BLOCK)
            if j > 0:
                new = before[j - 1] * new if MULTIPLY else before[j - 1] + new
            if NORMALIZE:
                new *= 1.0 - factor
            now = now + (factor * before[j] + new,)
            _write(c[j], row, now[j], width, BLOCK)
        before = now


@triton.jit
def ngram_gradients(
    u, decay, c, grad, of_u, of_decay, of_state, starts, lengths, num_strings, width,
    PER_STEP: tl.constexpr, MULTIPLY: tl.constexpr, NORMALIZE: tl.constexpr,
    LEVELS: tl.constexpr, ACC: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """``of_decay`` has a row per token, or, where λ has not, one per string."""
    string = tl.program_id(0).to(tl.int64)
    carried = (tl.zeros([BLOCK], ACC),) * LEVELS
    factor = tl.zeros([BLOCK], ACC) if PER_STEP else _read(decay, 0, width, ACC, BLOCK)
    total = tl.zeros([BLOCK], ACC)
    length = tl.load(lengths + string)
    for i in tl.range(0, length, num_stages=STAGES):
        row, row_before = _row(starts, length - i, num_strings), _row(starts, length - i - 1, num_strings)
        token = row - num_strings
        if PER_STEP:
            factor = _read(decay, token, width, ACC, BLOCK)
        slope = tl.zeros([BLOCK], ACC)
        below, pending = tl.zeros([BLOCK], ACC), tl.zeros([BLOCK], ACC)
        passed = ()
        for j in tl.static_range(LEVELS):
            arrived = carried[j] + _read(grad[j], row, width, ACC, BLOCK)
            sent = arrived * (1.0 - factor) if NORMALIZE else arrived
            new = _read(u[j], token, width, ACC, BLOCK)
            before = _read(c[j], row_before, width, ACC, BLOCK)
            _write(of_u[j], token, sent * below if MULTIPLY and j > 0 else sent, width, BLOCK)
            if j > 0:
                passed = passed + (pending + (sent * new if MULTIPLY else sent),)
                new = below * new if MULTIPLY else below + new
            slope += arrived * (before - new if NORMALIZE else before)
            below, pending = before, factor * arrived
        carried = passed + (pending,)
        total += slope
        if PER_STEP and of_decay is not None:
            _write(of_decay, token, slope, width, BLOCK)
    if not PER_STEP and of_decay is not None:
        _write(of_decay, string, total, width, BLOCK)
    for j in tl.static_range(LEVELS):
        arrived = carried[j] + _read(grad[j], string, width, ACC, BLOCK)
        _write(of_state, j * num_strings + string, arrived, width, BLOCK)


# The recurrence with feedback. What other programs wrote is read past the cache of a multiprocessor (.cg).


@triton.jit
def _wait(arrived, number):
    """Wait until ``number`` programs have come here, with what they wrote before."""
    tl.debug_barrier()
    tl.atomic_add(arrived, 1, sem="release")
    while tl.atomic_add(arrived, 0, sem="acquire") < number:
        pass
    tl.debug_barrier()


@triton.jit
def _get(values, row, real, width, k, ACC: tl.constexpr):
    """Channels k of rows, zeros where a row is not real."""
    place = values + row[:, None] * width + k[None, :]
    mask = real[:, None] & (k < width)[None, :]
    return tl.load(place, mask=mask, other=0.0, cache_modifier=".cg").to(ACC)


@triton.jit
def _put(out, row, value, real, width, k):
    place = out + row[:, None] * width + k[None, :]
    tl.store(place, value.to(out.dtype.element_ty), mask=real[:, None] & (k < width)[None, :])


@triton.jit
def _rows(starts, t, num_strings, string):
    """Rows of strings in a step."""
    return (t * num_strings if starts is None else tl.load(starts + t)) + string


@triton.jit
def _matrix(
    weight, k, width, TRANSPOSED: tl.constexpr, ACC: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr
):  # fmt: skip
    """Rows k of U, or of its transpose, tile by tile."""
    tiles = ()
    for n in tl.static_range(TILES):
        m = n * TILE + tl.arange(0, TILE)
        place = m[None, :] * width + k[:, None] if TRANSPOSED else k[:, None] * width + m[None, :]
        mask = (k < width)[:, None] & (m < width)[None, :]
        tiles = tiles + (tl.load(weight + place, mask=mask, other=0.0).to(ACC),)
    return tiles


@triton.jit(do_not_specialize=("first", "last", "num_strings"))
def feedback(
    u, gates, weight, f, x, mask, c, h, starts, lengths, arrived, first, last, num_strings, width,
    MULTIPLY: tl.constexpr, NORMALIZE: tl.constexpr, LEVELS: tl.constexpr, ACC: tl.constexpr,
    STRINGS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Steps ``first`` to ``last`` − 1, counted from 1. ``gates`` has logits of tokens, which become λ."""
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tiles = _matrix(weight, k, width, False, ACC, TILE, TILES)
    string = tl.program_id(1).to(tl.int64) * STRINGS + tl.arange(0, STRINGS)
    length = tl.load(lengths + string, mask=string < num_strings, other=0)
    for t in range(first, last):
        real = t <= length
        row, before = _rows(starts, t, num_strings, string), _rows(starts, t - 1, num_strings, string)
        token = row - num_strings
        seen = tl.zeros([STRINGS, BLOCK, TILE], ACC)
        for n in tl.static_range(TILES):
            m = n * TILE + tl.arange(0, TILE)
            part = _get(h, before, real, width, m, ACC)
            if mask is not None:
                part *= _get(mask, string, real, width, m, ACC)
            seen += part[:, None, :] * tiles[n][None, :, :]
        gate = 1.0 / (1.0 + tl.exp(-_get(gates, token, real, width, k, ACC) - tl.sum(seen, axis=2)))
        _put(gates, token, gate, real, width, k)
        value, below = tl.zeros([STRINGS, BLOCK], ACC), tl.zeros([STRINGS, BLOCK], ACC)
        for j in tl.static_range(LEVELS):
            new = _get(u[j], token, real, width, k, ACC)
            if j > 0:
                new = below * new if MULTIPLY else below + new
            if NORMALIZE:
                new *= 1.0 - gate
            below = _get(c[j], before, real, width, k, ACC)
            value = gate * below + new
            _put(c[j], row, value, real, width, k)
        if f is not None:
            if mask is not None:
                value *= _get(mask, string, real, width, k, ACC)
            share = _get(f, token, real, width, k, ACC)
            value = share * value + (1.0 - share) * _get(x, token, real, width, k, ACC)
        _put(h, row, value, real, width, k)
        if t + 1 < last:
            _wait(arrived + tl.program_id(1), (t + 1 - first) * tl.num_programs(0))


@triton.jit(do_not_specialize=("first", "last", "num_strings"))
def feedback_gradients(
    gates, weight, mask, to_y, to_logits, to_below, of_c, of_h, of_logits, starts, lengths, arrived,
    first, last, num_strings, width, LEVELS: tl.constexpr, ACC: tl.constexpr,
    STRINGS: tl.constexpr, BLOCK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    """Steps ``last`` − 1 down to ``first``; 0 is the states. ``of_c`` and ``of_h`` have what arrived."""
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tiles = _matrix(weight, k, width, True, ACC, TILE, TILES)
    string = tl.program_id(1).to(tl.int64) * STRINGS + tl.arange(0, STRINGS)
    exists = string < num_strings
    length = tl.load(lengths + string, mask=exists, other=0)
    longest = tl.max(length)
    for i in range(0, last - first):
        t = last - 1 - i
        real, goes_on = (t <= length) & exists, t < length
        row = _rows(starts, t, num_strings, string)
        after = _rows(starts, tl.minimum(t + 1, longest), num_strings, string) - num_strings
        seen = tl.zeros([STRINGS, BLOCK, TILE], ACC)
        for n in tl.static_range(TILES):
            m = n * TILE + tl.arange(0, TILE)
            seen += _get(of_logits, after, goes_on, width, m, ACC)[:, None, :] * tiles[n][None, :, :]
        passed = tl.sum(seen, axis=2)
        if mask is not None:
            passed *= _get(mask, string, real, width, k, ACC)
        passed += _get(of_h, row, real, width, k, ACC)
        _put(of_h, row, passed, real, width, k)
        if t > 0:
            before, token = _rows(starts, t - 1, num_strings, string), row - num_strings
            if to_y is not None:
                passed *= _get(to_y, token, real, width, k, ACC)
            gate = _get(gates, token, real, width, k, ACC)
            logits = tl.zeros([STRINGS, BLOCK], ACC)
            for j in tl.static_range(LEVELS - 1, -1, -1):
                now = _get(of_c[j], row, real, width, k, ACC)
                sent = _get(of_c[j], before, real, width, k, ACC)
                if j == LEVELS - 1:
                    now += passed
                else:
                    sent += passed
                _put(of_c[j], row, now, real, width, k)
                logits += now * _get(to_logits[j], token, real, width, k, ACC)
                _put(of_c[j], before, sent + gate * now, real, width, k)
                if j > 0:
                    passed = now
                    if to_below is not None:
                        passed *= _get(to_below[j - 1], token, real, width, k, ACC)
            _put(of_logits, token, logits, real, width, k)
        if i + 1 < last - first:
            _wait(arrived + tl.program_id(1), (i + 1) * tl.num_programs(0))
