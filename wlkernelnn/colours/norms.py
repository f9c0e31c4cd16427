"""Batch norm over rows that stand for several nodes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.modules.batchnorm import _NormBase
from torch.overrides import TorchFunctionMode

# The norms in a module: to look for them takes as long as a small layer.


def weighted_batch_norm(
    x: Tensor,
    count: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    r"""Batch norm of the rows x ``[C, d]``; row c occurs ``count[c]`` times.

    .. math::
        \mu = \frac{1}{N} \sum_c n_c x_c \qquad
        \sigma^2 = \frac{1}{N} \sum_c n_c (x_c - \mu)^2 \qquad N = \sum_c n_c

    Everything else is as in :func:`torch.nn.functional.batch_norm`: so is the running variance, of
    :math:`\sigma^2 N / (N - 1)`.
    """
    if torch.is_autocast_enabled(x.device.type):
        with torch.autocast(x.device.type, enabled=False):
            return weighted_batch_norm(
                x, count, running_mean, running_var, weight, bias, training, momentum, eps
            )
    total = int(count.sum())
    if not training or total < 2:  # of a single node torch says what is wrong
        values = running_mean, running_var, weight, bias, training, momentum, eps
        return functional.batch_norm(x, *values)
    given, x = x, x.float() if x.dtype in (torch.half, torch.bfloat16) else x  # torch does so, too
    share = count.to(x.dtype) / total
    mean = share @ x
    centred = x - mean
    var = share @ centred.square()
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(mean.to(running_mean.dtype), momentum)
            running_var.lerp_((var * (total / (total - 1))).to(running_var.dtype), momentum)
    scale = (var + eps).rsqrt()
    scale = scale if weight is None else scale * weight
    out = centred * scale
    return (out if bias is None else out + bias).to(given.dtype)


class CountedRows(TorchFunctionMode):
    """While it is active, batch norm counts each row as often as its node or edge occurs in the batch.

    Args:
        counts: Number of rows → how often each occurs.
    """

    def __init__(self, counts: Mapping[int, Tensor]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is functional.batch_norm:
            return self._batch_norm(*args, **kwargs)
        return func(*args, **kwargs)

    def _batch_norm(self, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        count = self.counts.get(input.size(0))
        if count is None or input.dim() != 2:
            raise ValueError(
                f"batch norm of shape {list(input.shape)}: expected two dimensions, and a row for each of "
                f"{sorted(self.counts)} colours or edges"
            )
        return weighted_batch_norm(input, count, *args, **kwargs)


def has_batch_statistics(module: torch.nn.Module) -> bool:
    """Whether what a module computes of a row depends on the other rows, by batch norm."""
    norms = (part for part in module.modules() if isinstance(part, _NormBase))
    return any(norm.training or norm.running_mean is None for norm in norms)
