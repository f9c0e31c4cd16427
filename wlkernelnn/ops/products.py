"""Products of matrices by oneDNN, with which torch computes its own recurrent layers, or by MKL.

Other products of single precision are BLAS's. That is MKL, which is half as fast as oneDNN on processors of
others than its maker, and faster on these. Torch has no public name for oneDNN's: where the names have gone,
everything is BLAS's.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.grad import conv2d_weight

from .autograd import transformed

# Multiplications below which a product takes less time than the way to oneDNN, and to a packed matrix in MKL.
_SMALL, _SMALL_PACKED = 2**22, 2**20


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias``, for ``x […, k]``, ``weight [d, k]`` and ``bias [d]``."""
    if (
        torch.compiler.is_compiling()
        or transformed()
        or torch.is_autocast_enabled("cpu")
        or x.dim() != 2
        or x.size(1) != weight.size(1)  # whose error tells of shapes
        or x.size(0) * weight.numel() < _SMALL
        or _blas_is_fast()
        or not _by_onednn(x, weight)
    ):
        return torch.nn.functional.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias)


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``grad.t() @ x``, of ``x [N, k]`` and ``grad [N, d]``: the gradient of the weight of :func:`linear`."""
    small = x.numel() * grad.size(1) < _SMALL
    if torch.compiler.is_compiling() or small or _blas_is_fast() or not _by_onednn(x, grad):
        return grad.t() @ x
    # A convolution of one pixel, of an image whose channels come last, is a product, and oneDNN's. As one of
    # transposed matrices it would copy both. One pixel has nothing to dilate, but on one thread only
    # convolutions that are dilated are oneDNN's.
    return conv2d_weight(_image(x), (grad.size(1), x.size(1), 1, 1), _image(grad), dilation=2)[..., 0, 0]


def multiplier(weight: Tensor, rows: int) -> Callable[..., Tensor]:
    """``x @ weight.t()``, ``+ plus`` if it is given, for many x ``[about rows, k]``; without gradients."""
    if torch.compiler.is_compiling() or not rows or not _by_onednn(weight):
        return _plain(weight)
    # Both bring a matrix into an order of their own, once.
    if _packed_blas_is_fast():
        return _by_packed_blas(weight.contiguous(), rows)
    return _by_packed_onednn(weight.contiguous(), rows)


def smallest_worth_a_call() -> int:
    """Multiplications from which a product by :func:`multiplier` is faster than a compiled loop."""
    return _SMALL_PACKED if _packed_blas_is_fast() else _SMALL


def _plain(weight: Tensor) -> Callable[..., Tensor]:
    transposed = weight.t()

    def multiplied(x: Tensor, plus: Tensor | None = None) -> Tensor:
        return torch.mm(x, transposed) if plus is None else torch.addmm(plus, x, transposed)

    return multiplied


def _by_packed_blas(weight: Tensor, rows: int) -> Callable[..., Tensor]:
    # For any other number of rows it takes the weight as it was.
    packed = torch.ops.mkl._mkl_reorder_linear_weight.default(weight, rows)
    product = torch.ops.mkl._mkl_linear.default

    def multiplied(x: Tensor, plus: Tensor | None = None) -> Tensor:
        found = product(x, packed, weight, None, rows)
        return found if plus is None else found.add_(plus)

    return multiplied


def _by_packed_onednn(weight: Tensor, rows: int) -> Callable[..., Tensor]:
    linear = torch.ops.mkldnn._linear_pointwise
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    single, added = linear.default, linear.binary

    def multiplied(x: Tensor, plus: Tensor | None = None) -> Tensor:
        if plus is None:
            return single(x, packed, None, "none", [], "")
        return added(x, plus, packed, None, "add")

    return multiplied


class _Linear(torch.autograd.Function):
    """Its gradients are such products too."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        # A bias with gaps in memory would be read without them.
        bias = None if bias is None else bias.contiguous()
        return torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        return (
            linear(grad, weight.t()) if ctx.needs_input_grad[0] else None,
            weight_gradient(x, grad) if ctx.needs_input_grad[1] else None,
            grad.sum(0) if ctx.needs_input_grad[2] else None,
        )


def _image(x: Tensor) -> Tensor:
    """``[1, k, 1, N]``, with the channels last in memory."""
    return x[None, None].permute(0, 3, 1, 2)


@cache
def _blas_is_fast() -> bool:
    cpuinfo = Path("/proc/cpuinfo")
    about = cpuinfo.read_text() if cpuinfo.is_file() else platform.processor()
    return torch.backends.mkl.is_available() and "GenuineIntel" in about


def _packed_blas_is_fast() -> bool:
    # Where less precision is enough, only oneDNN makes use of it.
    exact = torch.get_float32_matmul_precision() == "highest"
    return exact and _blas_is_fast() and _has_packed_blas()


@cache
def _has_packed_blas() -> bool:
    return hasattr(torch.ops.mkl, "_mkl_reorder_linear_weight") and hasattr(torch.ops.mkl, "_mkl_linear")


def _by_onednn(*factors: Tensor) -> bool:
    return bool(
        all(factor.is_cpu and factor.dtype == torch.float32 and factor.numel() for factor in factors)
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )
