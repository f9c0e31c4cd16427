"""Where kernels for GPUs are tested."""

from __future__ import annotations

import os

import pytest
import torch


@pytest.fixture
def triton_device() -> str:
    """A GPU where there is one, else the CPU, with Triton's interpreter."""
    pytest.importorskip("triton")
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("Triton's kernels need a GPU or TRITON_INTERPRET=1")
    return "cpu"
