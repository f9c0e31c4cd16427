"""What is Triton's own; that its results are right is tested with the scan."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from tests.gpu_compiler import assert_compiles_for_a_gpu
from tests.strings import normal, ptr_of
from tests.ways import IN_TRITON
from wlkernelnn.ops.scan import Steps, ngram, ngram_scan, ngram_scan_naive, sweeps


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
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision(dtype: torch.dtype, device: str) -> None:
    """Levels are kept in float32 from step to step: only what is written is rounded."""
    lengths, width = [40, 20], 4
    u = [normal(60, width).to(dtype) for _ in range(2)]
    decay = torch.rand(60, width).to(dtype)
    steps = Steps(ptr_of(lengths).to(device))
    entered = [steps.enter(value.to(device)) for value in (*u, decay)]
    c = ngram_scan(entered[:2], entered[2], steps)
    expected, _ = ngram_scan_naive([value.double() for value in u], decay.double(), ptr_of(lengths))
    for out, right in zip(c, expected, strict=True):
        assert out.dtype == dtype
        came = steps.leave(out[2:]).cpu().double()
        torch.testing.assert_close(came, right, rtol=torch.finfo(dtype).eps, atol=1e-5)


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


def test_not_taken_on_cpus_and_when_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ngram.scan_for(torch.ones(1)) is sweeps
    monkeypatch.setitem(ngram.SCANS, "meta", ngram.SCANS["cuda"])
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert ngram.scan_for(torch.ones(1, device="meta")) is sweeps


def test_kernels_compile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = []
    for dtype, levels, per_step in itertools.product(("fp32", "fp64", "bf16"), (1, 3), (False, True)):
        pointer = f"*{dtype}"
        types: dict[str, Any] = dict.fromkeys(("u", "c", "grad", "of_u"), [pointer] * levels)
        types |= {"starts": "*i64", "lengths": "*i64", "num_strings": "i32", "width": "i32", "other": pointer}
        constants = {
            "PER_STEP": per_step,
            "MULTIPLY": per_step,
            "NORMALIZE": levels == 3,
            "LEVELS": levels,
            "ACC": "fp64" if dtype == "fp64" else "fp32",
            "BLOCK": 64,
            "STAGES": 8,
        }
        kernels.append(("ngram", types, constants | ({} if per_step else {"state": None})))
        kernels.append(("ngram_gradients", types, constants | ({} if per_step else {"starts": None})))
    kernels.append(("ngram_gradients", types, constants | {"of_decay": None}))
    assert_compiles_for_a_gpu("wlkernelnn.ops.scan.triton_kernels", kernels)
