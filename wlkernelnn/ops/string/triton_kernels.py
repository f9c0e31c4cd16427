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
