"""Whether Adam can update all weights in one pass, the faster way."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor
from torch.nn.parameter import is_lazy

from .options import LoopOptions


def in_one_pass(parameters: Iterable[Tensor], options: LoopOptions) -> bool:
    """What ``fused`` of torch's Adam and AdamW is to be for such parameters.

    torch reads and writes the memory of a fused parameter as if it had no gaps, and Lightning clips no
    gradients of fused optimizers under mixed precision. Lazy parameters have no memory yet.
    """
    mixed = options.precision in ("16-mixed", "bf16-mixed", "16", "bf16")
    return not mixed and all(not is_lazy(one) and one.is_contiguous() for one in parameters)
