"""What is expected of every sequence model: layouts, states and strings that do not meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.checks.sequence_models import ALL_MODELS, EVERY, ONE_WAY, D, Make, drawn, some
from tests.checks.transforms import assert_transforms_agree
from tests.inputs.strategies import strings
from tests.inputs.strings import LENGTHS, end_to_end, normal, ptr_of
from wlkernelnn.sequence import (
    detached,
)
from wlkernelnn.testing import assert_layouts_agree, assert_resumes, assert_strings_independent
from wlkernelnn.testing.string_laws import parts, read

ANY = settings(max_examples=6, deadline=None, derandomize=True)


@pytest.mark.halved
@ALL_MODELS
def test_both_layouts(make: Make) -> None:
    model = drawn(make)

    @ANY
    @given(strings(D, equal=True))
    def check(equal: list[Tensor]) -> None:
        assert assert_layouts_agree(model, torch.stack(equal)) < 1e-12

    check()


@ALL_MODELS
def test_both_layouts_have_the_same_gradients(make: Make) -> None:
    model, x = drawn(make), normal(2, 4, D).requires_grad_()
    found = []
    for inputs in ((x,), (x.view(8, D), ptr_of([4, 4]))):
        out, state = model(*inputs)
        total = out.square().sum() + sum(part.pow(3).sum() for part in parts(state))
        found.append(torch.autograd.grad(total, [x, *model.parameters()], allow_unused=True))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.halved
@ALL_MODELS
def test_transforms_of_torch_func(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end(some())
    assert_transforms_agree(model, lambda model, x: model(x, ptr)[0], x)
    assert_transforms_agree(model, lambda model, x: model(x)[0], normal(6, D).view(2, 3, D))


# Among the slow tests are those whose steps are many operations, and all but one of each family.
UNROLLED = ("rrnn", "rrnn-gru", "rrnn-merging", "bidirectional", "rnn-bidirectional")
ALIKE = (
    *("rkm-cifg", "rkm-sync", "rkm-linear-state", "rkm", "rkm-ran", "stack"),
    *("string_kernel-learned", "string_kernel-highway"),
)


@pytest.mark.halved
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[pytest.mark.slow] if name in UNROLLED + ALIKE else [])
        for name, make in EVERY.items()
    ],
)
def test_compiles_whole_on_padded_strings(make: Make) -> None:
    model, x = drawn(make), normal(2, 2, D).requires_grad_()  # a compiler unrolls the steps
    model(x)  # lazy ones have their widths first
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")

    def run(model: Callable[..., Any]) -> list[Tensor]:
        out = model(x)[0]
        return [out, *torch.autograd.grad(out.square().sum(), [x, *parameters], allow_unused=True)]

    parameters = list(model.parameters())
    torch.testing.assert_close(run(compiled), run(model))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x)[0], model(x)[0])


@pytest.mark.halved
@ALL_MODELS
def test_strings_do_not_meet(make: Make) -> None:
    model = drawn(make)

    @ANY
    @given(strings(D, max_strings=3))
    def check(drawn: list[Tensor]) -> None:
        assert assert_strings_independent(model, drawn) < 1e-12

    check()


@ALL_MODELS
def test_gradients_stay_in_their_string(make: Make) -> None:
    model, batch = drawn(make), some()
    x, ptr = end_to_end(batch)
    out, state = model(x.requires_grad_(), ptr)
    begin, end = ptr[3:5].tolist()
    loss = out[begin:end].sum() + sum(part[..., 3, :].sum() for part in parts(state))
    (grad,) = torch.autograd.grad(loss, x)
    assert not grad[:begin].any()
    assert not grad[end:].any()
    assert grad[begin:end].all()


@ONE_WAY
def test_reading_can_be_interrupted(make: Make) -> None:
    model = drawn(make)

    @ANY
    @given(strings(D), st.data())
    def check(drawn: list[Tensor], data: Any) -> None:
        cuts = [data.draw(st.integers(0, len(string))) for string in drawn]
        assert assert_resumes(model, drawn, cuts) < 1e-12

    check()


@ONE_WAY
def test_gradients_reach_the_state_before(make: Make) -> None:
    """Interrupted without ``detached``, gradients are those of the whole; with it, they stop."""
    model, x = drawn(make), normal(2, 4, D).requires_grad_()
    whole, _ = model(x)
    (expected,) = torch.autograd.grad(whole[:, 2:].sum(), x)
    _, state = model(x[:, :2])
    rest, _ = model(x[:, 2:], state=state)
    torch.testing.assert_close(torch.autograd.grad(rest.sum(), x, retain_graph=True)[0], expected)
    rest, _ = model(x[:, 2:], state=detached(state))
    (truncated,) = torch.autograd.grad(rest.sum(), x)
    assert not truncated[:, :2].any()
    assert expected[:, :2].any()


@ONE_WAY
def test_nan_stays_behind_its_token(make: Make) -> None:
    model, batch = drawn(make), some()
    batch[3][2] = torch.nan  # of four tokens
    outs, state = read(model, batch)
    assert [bool(out.isfinite().all()) for out in outs] == [True, True, True, False, True]
    assert outs[3][:2].isfinite().all()
    for part in parts(state):
        assert part.isfinite().all(dim=-1).view(-1, 5).all(0).tolist() == [True, True, True, False, True]


@ALL_MODELS
def test_an_empty_string_says_nothing_and_keeps_its_state(make: Make) -> None:
    model = drawn(make)
    _, before = read(model, some())
    out, after = model(normal(0, D), ptr_of([0] * 5), before)
    assert out.size(0) == 0
    assert all(map(torch.equal, parts(after), parts(before)))
    _, of_nothing = read(model, [normal(0, D)])
    assert not any(part.any() for part in parts(of_nothing))


@ALL_MODELS
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)], ids=str)
def test_batches_without_tokens(make: Make, shape: tuple[int, int]) -> None:
    model, (num_strings, length) = drawn(make), shape
    x = normal(num_strings, length, D).requires_grad_()
    padded, padded_state = model(x)
    out, state = model(x.view(0, D), ptr_of([length] * num_strings))
    assert padded.shape == (num_strings, length, out.size(1))
    assert [part.shape for part in parts(padded_state)] == [part.shape for part in parts(state)]
    assert all(part.size(-2) == num_strings for part in parts(state))
    padded.sum().backward()
    assert x.grad is not None


@ALL_MODELS
def test_memory_layout_and_integers_do_not_matter(make: Make) -> None:
    model, x, ptr = drawn(make), normal(11, D), ptr_of(LENGTHS["ragged"])
    expected, _ = model(x, ptr)
    out, _ = model(x.t().contiguous().t(), ptr.int())
    torch.testing.assert_close(out, expected)
    padded = normal(3, 4, 2 * D)
    out, _ = model(padded.transpose(0, 1)[..., ::2])
    torch.testing.assert_close(out, model(padded.transpose(0, 1)[..., ::2].contiguous())[0])


@ALL_MODELS
def test_single_precision(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end(some())
    expected, expected_state = model(x, ptr)
    out, state = model.float()(x.float(), ptr)
    for came, wanted in zip([out, *parts(state)], [expected, *parts(expected_state)], strict=True):
        assert came.dtype == torch.float32
        torch.testing.assert_close(came, wanted.float(), rtol=1e-4, atol=1e-4)
