"""Whether Adam can update all weights in one pass, which takes a quarter of the time on a CPU."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from .options import LoopOptions


def in_one_pass(parameters: Iterable[Tensor], options: LoopOptions) -> bool:
    """What ``fused`` of torch's Adam and AdamW is to be for such parameters.

    torch reads and writes the memory of a fused parameter as if it had no gaps, and Lightning clips no
    gradients of fused optimizers under mixed precision.
    """
    mixed = options.precision in ("16-mixed", "bf16-mixed", "16", "bf16")
    return not mixed and all(parameter.is_contiguous() for parameter in parameters)
