"""What the kernels compute is tested with the sums."""

from __future__ import annotations

import pytest

from tests.gpu_compiler import assert_compiles_for_a_gpu

INDICES = dict.fromkeys(("indptr", "source", "target", "edge_type"), "*i64")


def test_kernels_compile(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    kernels = []
    for dtype in ("fp32", "fp64", "bf16"):
        types = {**INDICES, "width": "i32", "other": f"*{dtype}"}
        tile = {"ACC": "fp64" if dtype == "fp64" else "fp32", "EDGES": 4, "BLOCK": 64}

        def add(
            kernel: str, *left_out: str, types: dict = types, tile: dict = tile, **constants: object
        ) -> None:
            kernels.append((kernel, types, {**tile, **constants, **dict.fromkeys(left_out)}))

        add("gated", SCALE=0.1)
        add("gated", "edge_type", "G", "F", "weight", SCALE=0.1)
        add("gated_gradients", "of_gate", "of_c", SCALE=0.1)
        add("gated_gradients", "edge_type", "G", "F", "weight", "of_F", SCALE=0.1)
        for kind in ("MULTIPLY", "RELU", "TANH") if dtype == "fp32" else ("TANH",):
            add("mapped", KIND=kind)
            add("mapped_gradients", "of_x", "weight", KIND=kind)
        add("row_sums", EDGES=32)
    assert_compiles_for_a_gpu("wlkernelnn.ops.graph.triton_kernels", kernels)
