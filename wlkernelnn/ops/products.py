"""Products of matrices by oneDNN, with which torch computes its own recurrent layers.

Other products of single precision are BLAS's, which is half as fast on some processors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.grad import conv2d_weight


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight.t() + bias``, for ``x [N, k]``, ``weight [d, k]`` and ``bias [d]``."""
    if not _by_onednn(x):
        return torch.nn.functional.linear(x, weight, bias)
    # A convolution of one pixel, of an image whose channels come last, is a product, and oneDNN's.
    out = torch.nn.functional.conv2d(_image(x), weight[..., None, None], bias)
    return out.squeeze(2).squeeze(0).t().contiguous()


def weight_gradient(x: Tensor, grad: Tensor) -> Tensor:
    """``grad.t() @ x``, of ``x [N, k]`` and ``grad [N, d]``: the gradient of the weight of :func:`linear`."""
    if not _by_onednn(x):
        return grad.t() @ x
    shape = (grad.size(1), x.size(1), 1, 1)
    return conv2d_weight(_image(x), shape, _image(grad))[..., 0, 0]


def multiplier(weight: Tensor, rows: int) -> Callable[..., Tensor]:
    """``x @ weight.t()``, ``+ plus`` if it is given, for many x ``[about rows, k]``; without gradients."""
    if not _by_onednn(weight) or not rows:
        transposed = weight.t()

        def multiplied(x: Tensor, plus: Tensor | None = None) -> Tensor:
            return torch.mm(x, transposed) if plus is None else torch.addmm(plus, x, transposed)

        return multiplied
    # There is no public name for this: a product with a matrix that was brought into oneDNN's order once.
    linear = torch.ops.mkldnn._linear_pointwise
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), rows)
    single, added = linear.default, linear.binary

    def multiplied_by_onednn(x: Tensor, plus: Tensor | None = None) -> Tensor:
        if plus is None:
            return single(x, packed, None, "none", [], "")
        return added(x, plus, packed, None, "add")

    return multiplied_by_onednn


def _image(x: Tensor) -> Tensor:
    """``[1, k, 1, N]``, with the channels last in memory."""
    return x[None, None].permute(0, 3, 1, 2)


def _by_onednn(x: Tensor) -> bool:
    return bool(
        x.is_cpu
        and x.dtype == torch.float32
        and x.numel() > 0
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and not torch.compiler.is_compiling()
    )
