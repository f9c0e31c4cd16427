"""What is Triton's own; that its results are right is tested with the scan."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.gpu_compiler import assert_compiles_for_a_gpu
from tests.checks.ways import IN_TRITON
from tests.inputs.strings import assert_same_with_gradients, normal, ptr_of
from wlkernelnn.ops.string import (
    Steps,
    feedback_scan,
    feedback_scan_naive,
    ngram,
    ngram_scan,
    ngram_scan_naive,
)
from wlkernelnn.ops.string import ngram_sweeps as sweeps


@IN_TRITON
def test_several_blocks_of_channels(device: str) -> None:
    lengths, width = [2, 3, 0], 70
    u = [normal(5, width).requires_grad_() for _ in range(2)]
    decay = torch.rand(5, width, dtype=torch.float64, requires_grad=True)
    steps = Steps(ptr_of(lengths).to(device))
    c = ngram_scan([steps.enter(value.to(device)) for value in u], steps.enter(decay.to(device)), steps)
    came = [steps.leave(part[3:]).cpu() for part in c]
    expected, _ = ngram_scan_naive(u, decay, ptr_of(lengths))
    for out, right in zip(came, expected, strict=True):
        torch.testing.assert_close(out, right, rtol=1e-12, atol=1e-12)
    grads, right_grads = (
        torch.autograd.grad(sum(out.square().sum() for out in outs), [*u, decay]) for outs in (came, expected)
    )
    for grad, right in zip(grads, right_grads, strict=True):
        torch.testing.assert_close(grad, right, rtol=1e-12, atol=1e-12)


@IN_TRITON
@pytest.mark.parametrize("decay", [None, 0.8], ids=["by_step", "constant"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision(dtype: torch.dtype, decay: float | None, device: str) -> None:
    """Levels go from step to step in float32: only what is written is rounded, and read again backwards."""
    lengths, width = [8, 3], 4
    inputs = [normal(11, width).to(dtype) for _ in range(2)]
    if decay is None:
        inputs.append(torch.rand(11, width).to(dtype))
    steps = Steps(ptr_of(lengths).to(device))
    results = []
    for exact in (False, True):
        leaves = [(value.double() if exact else value.to(device)).requires_grad_() for value in inputs]
        if exact:
            c, _ = ngram_scan_naive(leaves[:2], *(leaves[2:] or [decay]), ptr_of(lengths))
        else:
            entered = [steps.enter(leaf) for leaf in leaves]
            c = [steps.leave(part[2:]) for part in ngram_scan(entered[:2], *(entered[2:] or [decay]), steps)]
        grads = torch.autograd.grad(c, leaves, [torch.ones_like(part) for part in c])
        results.append([value.detach().cpu() for value in (*c, *grads)])
    for place, (came, right) in enumerate(zip(*results, strict=True)):
        assert came.dtype == dtype
        atol = 1e-5 if place < 2 else 4 * torch.finfo(dtype).eps * float(right.abs().max())
        torch.testing.assert_close(came.double(), right, rtol=torch.finfo(dtype).eps, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_taken_on_gpus(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors without data stand for those of a GPU."""
    pytest.importorskip("triton")
    value = torch.ones(1, dtype=dtype, device="meta")
    assert ngram.scan_for(value) is sweeps
    monkeypatch.setitem(ngram.SCANS, "meta", ngram.SCANS["cuda"])
    assert ngram.scan_for(value) is ngram.triton_scan()
    assert ngram.scan_for(value.to(torch.complex64)) is sweeps
    monkeypatch.setitem(ngram.SCANS, "meta", lambda: None)
    assert ngram.scan_for(value) is sweeps


def test_not_taken_on_cpus() -> None:
    assert ngram.scan_for(torch.ones(1)) is sweeps


FEEDBACK: dict[str, tuple[int, list[int], dict[str, Any]]] = {
    "carried, masked, from a state": (1, [2, 0, 1], {"carry": True, "masked": True, "state": True}),
    "masked sums": (2, [0, 2, 1], {"compose": "add", "normalize": False, "masked": True}),
    "plain": (2, [2], {}),
}


@IN_TRITON
@pytest.mark.parametrize(("n", "lengths", "options"), FEEDBACK.values(), ids=FEEDBACK)
def test_feedback(
    n: int, lengths: list[int], options: dict[str, Any], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two blocks of channels, two tiles of columns, several groups of strings."""
    scan, width = ngram.triton_scan(), 33
    monkeypatch.setattr(scan, "PROCESSORS", 6)
    monkeypatch.setattr(scan, "SUMS", 8192)
    tokens, strings = sum(lengths), len(lengths)
    shapes = {f"u{j}": (tokens, width) for j in range(n)} | {
        "logits": (tokens, width),
        "weight": (width,) * 2,
    }
    if "carry" in options:
        shapes |= {"f": (tokens, width), "x": (tokens, width)}
    if "state" in options:
        shapes["state"] = (n + 1, strings, width)
    inputs = {name: normal(*shape) for name, shape in shapes.items()}
    mask = torch.rand(strings, width, dtype=torch.float64).round() * 2 if "masked" in options else None
    chosen = {name: options[name] for name in ("compose", "normalize") if name in options}
    seen: list[Any] = []
    monkeypatch.setattr(scan.kernels, "feedback", Seen(scan.kernels.feedback, seen))
    monkeypatch.setattr(scan.kernels, "feedback_gradients", Seen(scan.kernels.feedback_gradients, seen))

    def fast(state: Tensor | None = None, **values: Tensor) -> list[Tensor]:
        steps = Steps(ptr_of(lengths).to(device))
        entered = {name: steps.enter(value.to(device)) for name, value in values.items() if name != "weight"}
        u = [entered[f"u{j}"] for j in range(n)]
        carry = (entered["f"], entered["x"]) if "f" in entered else None
        given = entered["logits"], values["weight"].to(device), steps
        begin = None if state is None else steps.sort(state.to(device))
        drop = None if mask is None else steps.sort(mask.to(device))
        found = feedback_scan(u, *given, begin, carry=carry, mask=drop, **chosen)
        last = steps.unsort(torch.stack([steps.last(part) for part in found]))
        return [*(steps.leave(part[strings:]).cpu() for part in found), last.cpu()]

    def naive(state: Tensor | None = None, **values: Tensor) -> list[Tensor]:
        u = [values[f"u{j}"] for j in range(n)]
        carry = (values["f"], values["x"]) if "f" in values else None
        given = values["logits"], values["weight"], ptr_of(lengths), state
        rows, last = feedback_scan_naive(u, *given, carry=carry, mask=mask, **chosen)
        return [*rows, last]

    assert_same_with_gradients(fast, naive, inputs, 1e-11)
    assert len(seen) >= 2


class Seen:
    """A kernel that tells when it runs."""

    def __init__(self, kernel: Any, seen: list[Any]) -> None:
        self.kernel, self.seen = kernel, seen

    def __getitem__(self, grid: Any) -> Any:
        self.seen.append(grid)
        return self.kernel[grid]


NGRAM = [("fp32", 1, False), ("fp32", 3, True), ("fp64", 2, True), ("bf16", 2, False)]
FEEDBACK = [("fp64", 2), ("bf16", 1)]


@pytest.mark.slow
def test_kernels_compile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = []
    for dtype, levels, per_step in NGRAM:
        pointer = f"*{dtype}"
        types: dict[str, Any] = dict.fromkeys(("u", "c", "grad", "of_u"), [pointer] * levels)
        types |= {"starts": "*i64", "lengths": "*i64", "num_strings": "i32", "width": "i32", "other": pointer}
        constants = {
            "PER_STEP": per_step,
            "MULTIPLY": per_step,
            "NORMALIZE": levels > 1,
            "LEVELS": levels,
            "ACC": "fp64" if dtype == "fp64" else "fp32",
            "BLOCK": 64,
            "STAGES": 3,
        }
        kernels.append(("ngram", types, constants | ({} if per_step else {"state": None})))
        kernels.append(("ngram_gradients", types, constants | ({} if per_step else {"starts": None})))
    kernels.append(("ngram_gradients", types, constants | {"of_decay": None}))
    for dtype, levels in FEEDBACK:
        pointer = f"*{dtype}"
        tuples = dict.fromkeys(("u", "c", "of_c", "to_logits"), [pointer] * levels)
        tuples["to_below"] = [pointer] * (levels - 1)
        sizes = dict.fromkeys(("first", "last", "num_strings", "width"), "i32")
        types = {**tuples, **sizes, "starts": "*i64", "lengths": "*i64", "arrived": "*i32", "other": pointer}
        constants = {"LEVELS": levels, "ACC": "fp64" if dtype == "fp64" else "fp32"}
        constants |= {"STRINGS": 8, "BLOCK": 16, "TILE": 64 if dtype == "fp64" else 128, "TILES": 3}
        left_out = {} if levels > 1 else {"mask": None, "starts": None}
        kernels.append(("feedback", types, {**constants, **left_out, "MULTIPLY": True, "NORMALIZE": True}))
        kernels.append(
            (
                "feedback_gradients",
                types,
                {**constants, **left_out} | ({"to_below": None} if levels == 1 else {}),
            )
        )
    assert_compiles_for_a_gpu("wlkernelnn.ops.string.triton_kernels", kernels)
