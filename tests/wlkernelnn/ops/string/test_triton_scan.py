"""What is Triton's own; that its results are right is tested with the scan."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.gpu_compiler import assert_compiles_for_a_gpu
from tests.strings import normal, ptr_of
from tests.ways import IN_TRITON
from wlkernelnn.ops.string import Steps, ngram, ngram_scan, ngram_scan_naive
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
    lengths, width = [12, 7], 4
    inputs = [normal(19, width).to(dtype) for _ in range(2)]
    if decay is None:
        inputs.append(torch.rand(19, width).to(dtype))
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


def test_kernels_compile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = []
    cases = [("fp32", 1, False), ("fp32", 3, True), ("fp64", 2, True), ("bf16", 2, False)]
    for dtype, levels, per_step in cases:
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
    assert_compiles_for_a_gpu("wlkernelnn.ops.string.triton_kernels", kernels)
