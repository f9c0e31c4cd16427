"""Triton's kernels, compiled for a GPU where there is none: their interpreter forgives too much."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

# A process of its own: here Triton may be an interpreter.
PROGRAM = """
import importlib, json, sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

module = importlib.import_module(sys.argv[1])
for name, types, constants in json.load(sys.stdin):
    kernel = getattr(module, name)
    constants = {k: tl.dtype(v) if v in ("fp32", "fp64") else v for k, v in constants.items()}
    signature = {k: "constexpr" if k in constants else types.get(k, types["other"]) for k in kernel.arg_names}
    signature = {k: tuple(v) if isinstance(v, list) else v for k, v in signature.items()}
    places = {(kernel.arg_names.index(k),): value for k, value in constants.items()}
    code = triton.compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", 80, 32))
    assert code.asm["cubin"]
    print(name)
"""


def assert_compiles_for_a_gpu(
    module: str, kernels: Sequence[tuple[str, dict[str, Any], dict[str, Any]]]
) -> None:
    """Each kernel of the module compiles, of arguments of these types and these constants.

    Args:
        module: Its full name.
        kernels: Name, Triton's names of the types of arguments (``"other"``: of all that aren't named; a list
            for a tuple), and values of the constants, in which ``"fp32"`` and ``"fp64"`` are types; ``None``
            for an argument that is left out.
    """
    pytest.importorskip("triton.backends.nvidia")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, module],
        input=json.dumps(kernels),
        capture_output=True,
        text=True,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [name for name, _, _ in kernels]
