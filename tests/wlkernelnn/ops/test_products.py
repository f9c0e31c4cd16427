from __future__ import annotations

import torch

from tests.strings import normal
from wlkernelnn.ops.products import multiplier, weight_gradient


def test_multiplier_and_weight_gradient() -> None:
    x, grad, weight = normal(5, 3), normal(5, 4), normal(4, 3)
    torch.testing.assert_close(weight_gradient(x, grad), torch.einsum("nd,nk->dk", grad, x))
    expected = torch.einsum("nk,dk->nd", x, weight)
    multiplied = multiplier(weight, 5)
    torch.testing.assert_close(multiplied(x), expected)
    torch.testing.assert_close(multiplied(x, grad), expected + grad)
