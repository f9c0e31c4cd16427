"""What is expected of every sequence model, for all of them alike."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.equations import randomize
from tests.strategies import strings
from tests.strings import LENGTHS, end_to_end, normal, ptr_of
from tests.transforms import assert_transforms_agree
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    RRNNGRU,
    Bidirectional,
    MergingRRNN,
    RecurrentKernelMachine,
    Stack,
    StringKernelConv,
    StringKernelNetwork,
    StringModel,
    StringRNN,
    WeightDrop,
    detached,
)
from wlkernelnn.sequence.layers.string_model import learn_width
from wlkernelnn.testing import assert_layouts_agree, assert_resumes, assert_strings_independent
from wlkernelnn.testing.string_laws import parts, read
from wlkernelnn.utils.files import read_tensors, write_tensors

D, K = 3, 4

MODELS: dict[str, Callable[[int], StringModel]] = {
    "string_kernel": lambda width: StringKernelConv(width, K),
    "string_kernel-constant": lambda width: StringKernelConv(
        width, K, 3, 0.6, normalize=False, act="tanh", readout="sum"
    ),
    "string_kernel-learned": lambda width: StringKernelConv(
        width, K, 3, "learned", compose="add", readout="learned"
    ),
    "string_kernel-feedback": lambda width: StringKernelConv(width, K, 2, feedback=True, act="tanh"),
    "kernel_machine": lambda width: RecurrentKernelMachine(width, K, "polynomial"),
    "kernel_machine-feedback": lambda width: RecurrentKernelMachine(
        width, K, "gaussian", ngram=3, feedback=True
    ),
    "rkm": lambda width: RKM(width, K),
    "rkm-lstm": lambda width: RKM(width, K, "lstm", ngram=2, dilation=2, layer_norm=False),
    "rkm-cifg": lambda width: RKM(width, K, "rkm_cifg", ngram=(1, 3, 2, 1), layer_norm="state"),
    "rkm-ran": lambda width: RKM(width, K, "ran_tanh", layer_norm=False, forget_bias=1.0),
    "rkm-linear-at-once": lambda width: RKM(
        width, K, "linear_gated", 3, feedback=False, sigma_i2="learned", sigma_f2="learned"
    ),
    "rkm-linear-state": lambda width: RKM(width, K, "linear", layer_norm="state", feedback=False),
    "rkm-gated_cnn": lambda width: RKM(width, K, "gated_cnn", ngram=3),
    # Without auxiliary vectors every tree has its token.
    "rrnn": lambda width: RRNN(width, K, 2, 2, activations=("tanh", "sigmoid"), auxiliary=()),
    "rrnn-merging": lambda width: MergingRRNN(
        width, K, (2, 1), 2, activations=("tanh", "sigmoid"), auxiliary=()
    ),
    "rrnn-gru": lambda width: RRNNGRU(width, K, 2),
    "stack": lambda width: Stack([StringKernelConv(width, 2, 1), StringKernelConv(2, 3, 2)], jumping="cat"),
    "weight_drop": lambda width: WeightDrop(
        StringKernelConv(width, K, 1, feedback=True), "decay.lins.0.weight", 0.5
    ),
    "network": lambda width: StringKernelNetwork(width, K, 2, ngram=2, feedback=True, act="relu"),
    "rnn": lambda width: StringRNN(RKM(width, K, "rkm_cifg"), 2),
}
# Those that carry their input over: they know its width from the start.
SIZED: dict[str, Callable[[int], StringModel]] = {
    "rkm-sync": lambda width: RKM(width, K, "rkm_lstm", ngram=4, filters="sync"),
    "string_kernel-highway": lambda width: StringKernelConv(width, D, 2, highway=True, dropout=0.3),
    "string_kernel-highway-feedback": lambda width: StringKernelConv(
        width, D, 1, feedback=True, highway=True, act="tanh", readout="learned", dropout=0.3
    ),
}
# Those that read from the right too.
BOTH_WAYS: dict[str, Callable[[int], StringModel]] = {
    "bidirectional": lambda width: Bidirectional(StringKernelConv(width, K, 2), RKM(width, 2)),
    "rnn-bidirectional": lambda width: StringRNN(RKM(width, 2, "lstm", layer_norm=False), 2, True),
}
ONE_WAY = pytest.mark.parametrize("make", (MODELS | SIZED).values(), ids=MODELS | SIZED)
EVERY = MODELS | SIZED | BOTH_WAYS
ALL_MODELS = pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
LAZY_MODELS = pytest.mark.parametrize("make", (MODELS | BOTH_WAYS).values(), ids=MODELS | BOTH_WAYS)

Make = Callable[[int], StringModel]
ANY = settings(max_examples=8, deadline=None, derandomize=True)


def drawn(make: Make) -> StringModel:
    model = make(D)
    randomize(model)
    return model.eval()


def some() -> list[Tensor]:
    return [normal(length, D) for length in LENGTHS["ragged"]]


# Laws


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


@ALL_MODELS
def test_transforms_of_torch_func(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end(some())
    assert_transforms_agree(model, lambda model, x: model(x, ptr)[0], x)
    assert_transforms_agree(model, lambda model, x: model(x)[0], normal(6, D).view(2, 3, D))


@ALL_MODELS
def test_compiles_whole_on_padded_strings(make: Make) -> None:
    model, x = drawn(make), normal(2, 4, D).requires_grad_()
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


@ALL_MODELS
def test_strings_do_not_meet(make: Make) -> None:
    model = drawn(make)

    @ANY
    @given(strings(D))
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


# Parameters


@ALL_MODELS
def test_reset_draws_everything_again(make: Make) -> None:
    model = make(D)

    def again(seed: int) -> dict[str, Tensor]:
        for parameter in model.parameters():
            torch.nn.init.constant_(parameter, float("nan"))
        torch.manual_seed(seed)
        model.reset_parameters()
        return {name: value.detach().clone() for name, value in model.named_parameters()}

    first, same, other = again(1), again(1), again(2)
    for name, value in first.items():
        assert not value.isnan().any(), f"{name} keeps its old value"
        assert torch.equal(value, same[name])
        assert torch.equal(value, other[name]) == name.endswith(("logit", "mix", "norm.weight", "norm.bias"))


@ALL_MODELS
def test_state_travels_without_pickle(make: Make, tmp_path: Path) -> None:
    model, (x, ptr) = drawn(make).float(), end_to_end(some())
    write_tensors(tmp_path / "state.safetensors", model.state_dict(), {})
    fresh = make(D).eval()
    fresh.load_state_dict(read_tensors(tmp_path / "state.safetensors")[0])
    # Products of matrices may be rounded otherwise where they lie otherwise in memory.
    torch.testing.assert_close(fresh(x.float(), ptr)[0], model(x.float(), ptr)[0])


@LAZY_MODELS
@pytest.mark.parametrize("copied", [False, True], ids=["itself", "its_copy"])
def test_lazy_widths(make: Make, copied: bool) -> None:
    sized, lazy = make(D), make(-1).double()
    if copied:
        lazy = copy.deepcopy(lazy)
    out, _ = lazy(*end_to_end(some()))
    assert out.dtype == torch.float64
    shapes = {name: (parameter.shape, torch.float64) for name, parameter in sized.named_parameters()}
    assert {name: (p.shape, p.dtype) for name, p in lazy.named_parameters()} == shapes


@LAZY_MODELS
def test_widths_learned_without_tokens(make: Make) -> None:
    model = make(-1).double()
    learn_width(model, D)
    assert {name: p.shape for name, p in model.named_parameters()} == {
        name: p.shape for name, p in make(D).named_parameters()
    }
    assert model(*end_to_end(some()))[0].isfinite().all()


@LAZY_MODELS
def test_lazy_models_load(make: Make) -> None:
    model, lazy, (x, ptr) = drawn(make).float(), make(-1).eval(), end_to_end(some())
    lazy.load_state_dict(model.state_dict())
    assert torch.equal(lazy(x.float(), ptr)[0], model(x.float(), ptr)[0])


@ALL_MODELS
def test_copies_are_independent(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end(some())
    out, _ = model(x, ptr)
    other = copy.deepcopy(model)
    assert torch.equal(other(x, ptr)[0], out)
    randomize(other)
    assert torch.equal(model(x, ptr)[0], out)
    assert not torch.equal(other(x, ptr)[0], out)


# Bad input


@ALL_MODELS
def test_inputs_of_other_kinds(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end([normal(2, D), normal(3, D)])
    assert torch.equal(model(x, ptr.tolist())[0], model(x, ptr)[0])
    with pytest.raises(TypeError, match="needs x as a tensor or packed, got list; path_graph makes"):
        model([normal(2, D)])


@ALL_MODELS
def test_packed_strings(make: Make) -> None:
    model, strings = drawn(make), [normal(length, D) for length in (2, 4, 1, 4)]
    expected, expected_state = model(*end_to_end(strings))
    out, state = model(torch.nn.utils.rnn.pack_sequence(strings, enforce_sorted=False))
    torch.testing.assert_close(torch.cat(torch.nn.utils.rnn.unpack_sequence(out)), expected)
    for part, wanted in zip(parts(state), parts(expected_state), strict=True):
        torch.testing.assert_close(part, wanted)


@ALL_MODELS
def test_inputs_that_do_not_match(make: Make) -> None:
    model, x, ptr = drawn(make), normal(11, D), ptr_of(LENGTHS["ragged"])
    name = type(model).__name__
    for inputs, message in (
        ((x,), rf"{name} needs x of shape \[B, T, in_channels\], .* got \[11, {D}\] without ptr"),
        ((x.unsqueeze(0), ptr), rf"{name} needs x of shape \[N, in_channels\] with ptr, got \[1, 11, {D}\]"),
        ((x[1:], ptr), f"{name}: ptr ends at 11, x has 10 tokens"),
        ((x, ptr + 1), "ptr must begin with 0"),
        ((x, ptr.double()), "ptr must be a vector of integers"),
        ((normal(11, D + 1), ptr), rf"{name} reads tokens of {D} values, got x of shape \[11, {D + 1}\]"),
        ((normal(2, 3, D + 1),), rf"got x of shape \[2, 3, {D + 1}\]"),
    ):
        with pytest.raises(ValueError, match=message):
            model(*inputs)


@ALL_MODELS
@pytest.mark.parametrize("lengths", [LENGTHS["ragged"], [2] * 5], ids=["ragged", "equal"])
def test_states_that_do_not_match(make: Make, lengths: list[int]) -> None:
    model = drawn(make)
    x, ptr = normal(sum(lengths), D), ptr_of(lengths)
    _, state = model(x, ptr)

    def every(change: Callable[[Tensor], Tensor], state: Any) -> Any:
        return change(state) if isinstance(state, Tensor) else tuple(every(change, part) for part in state)

    for change in (
        lambda part: part[..., :-1, :],
        lambda part: torch.cat([part, part], dim=-2),
        lambda part: part[..., :-1],
        lambda part: part.reshape(-1),
    ):
        with pytest.raises(ValueError, match=r"needs (a state|states) of"):
            model(x, ptr, every(change, state))
    for wrong in ([state], (None,), "state"):
        with pytest.raises(ValueError, match="a state is a tensor or a tuple of states, got"):
            model(x, ptr, wrong)
    with pytest.raises(ValueError, match="state"):
        model(x, ptr, (*parts(state), *parts(state)))
