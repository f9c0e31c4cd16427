"""Which version of an operation runs, by an operation whose fast version has other values."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wlkernelnn.ops.fast_op import FastOp, own
from wlkernelnn.ops.string import Steps, ngram_scan


def plain(x: Tensor, factor: float) -> tuple[Tensor, Tensor]:
    return factor * x**2, x.clone()


def forward(x: Tensor, factor: float) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, ...]]:
    outs = plain(x, factor)
    return outs, (2 * factor * x, *outs)


def backward(
    values: Sequence[object],
    kept: Sequence[Tensor],
    needed: Sequence[bool],
    grads: Sequence[Tensor | None],
) -> tuple[Tensor, None]:
    slope, *outs = kept
    assert (len(values), len(outs), tuple(needed)) == (2, 2, (True, False))
    first, second = own(grads, outs)
    return 1000 * (first * slope + second), None


MARKED = FastOp(plain, forward, backward)


def test_gradients_by_hand_in_eager_mode_alone() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    squares, same = MARKED(x, 0.5)
    assert torch.autograd.grad(squares, x, retain_graph=True)[0] == 3000
    assert torch.autograd.grad(same, x, retain_graph=True)[0] == 1000
    (grad,) = torch.autograd.grad(squares, x, create_graph=True)
    assert (grad.item(), torch.autograd.grad(grad, x)[0].item()) == (3, 1)
    assert torch.func.grad(lambda x: MARKED(x, 0.5)[0].sum())(x) == 3


def test_several_gradients_at_once() -> None:
    """A backward pass under vmap, behind a forward pass that was not."""
    x, steps = torch.randn(5, 2, dtype=torch.float64, requires_grad=True), Steps([0, 2, 5])
    out, cotangents = ngram_scan([x, x], 0.5, steps)[1], torch.randn(3, 7, 2, dtype=torch.float64)
    (found,) = torch.autograd.grad(out, x, cotangents, retain_graph=True, is_grads_batched=True)
    for one, cotangent in zip(found, cotangents, strict=True):
        torch.testing.assert_close(one, torch.autograd.grad(out, x, cotangent, retain_graph=True)[0])
