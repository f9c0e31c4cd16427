"""The kernels can be compiled for GPUs, which their interpretation does not show; it needs no GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from wlkernelnn.ops.edge_sum import triton_kernels as kernels

INDICES = ("indptr", "source", "target", "edge_type")

def compiled(name, dtype, left_out=(), **constants):
    kernel = getattr(kernels, name)
    exact = tl.float64 if dtype == "fp64" else tl.float32
    constants = {"ACC": exact, "EDGES": 4, "BLOCK": 64, **constants, **dict.fromkeys(left_out)}
    types = {argument: "*i64" for argument in INDICES} | {"width": "i32"}
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, f"*{dtype}")
        for argument in kernel.arg_names
    }
    places = {(kernel.arg_names.index(argument),): value for argument, value in constants.items()}
    code = triton.compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 80, 32))
    assert code.asm["cubin"]
    print(name, dtype, left_out, constants)

for dtype in ("fp32", "fp64", "bf16", "fp16"):
    for left_out in ((), ("weight",), ("G",), ("F",), ("edge_type", "G", "F")):
        compiled("gated", dtype, left_out, SCALE=0.1)
    for left_out in (("of_c", "of_F"), ("of_F",), ("of_c",), ("of_gate", "of_c"), ("edge_type", "G", "F", "of_F")):
        compiled("gated_gradients", dtype, left_out, SCALE=0.1)
    for kind in ("MULTIPLY", "ADD", "RELU", "TANH"):
        compiled("mapped", dtype, KIND=kind)
        compiled("mapped_gradients", dtype, ("of_x", "weight"), KIND=kind)
        compiled("mapped_gradients", dtype, ("of_table",), KIND=kind)
    compiled("row_sums", dtype, EDGES=32)
"""


def test_compiled_for_a_gpu(tmp_path: object) -> None:
    pytest.importorskip("triton.backends.nvidia")
    known = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=known, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4 * (5 + 5 + 3 * 4 + 1)
