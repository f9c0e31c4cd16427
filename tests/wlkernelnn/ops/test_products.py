"""Products by oneDNN and by packed matrices against those by everything else."""

from __future__ import annotations

import pytest
import torch

from tests.strings import normal
from wlkernelnn.ops import products
from wlkernelnn.ops.products import linear, multiplier, weight_gradient

SHAPES = pytest.mark.parametrize(
    "shape", [(5, 3, 4), (5, 1, 4), (1, 1, 1), (33, 7, 64), (0, 3, 2), (64, 3, 2), (70, 300, 220)], ids=str
)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])


@pytest.fixture(params=[False, True], ids=["onednn", "blas"], autouse=True)
def whose_products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "_blas_is_fast", lambda: request.param)


@SHAPES
@DTYPES
@pytest.mark.parametrize("biased", [True, False], ids=["bias", "no_bias"])
def test_linear(shape: tuple[int, int, int], dtype: torch.dtype, biased: bool) -> None:
    rows, width, out = shape
    inputs = [normal(rows, width, dtype=dtype), normal(out, width, dtype=dtype)]
    inputs += [normal(out, dtype=dtype)] if biased else []
    leaves = [value.requires_grad_() for value in inputs]
    found = []
    for function in (linear, torch.nn.functional.linear):
        result = function(*leaves)
        first = torch.autograd.grad(result.square().sum(), leaves, create_graph=True)
        second = torch.autograd.grad(sum(grad.square().sum() for grad in first), leaves)
        found.append([result, *first, *second])
    for came, wanted in zip(*found, strict=True):
        scale = max(1.0, float(wanted.detach().abs().max())) if wanted.numel() else 1.0
        torch.testing.assert_close(came / scale, wanted / scale, rtol=0, atol=1e-4)


@SHAPES
@DTYPES
def test_multiplier_and_weight_gradient(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, width, out = shape
    x, grad = normal(rows, 2 * width, dtype=dtype)[:, width:], normal(rows, 2 * out, dtype=dtype)[:, out:]
    torch.testing.assert_close(weight_gradient(x, grad), grad.t() @ x, rtol=1e-4, atol=1e-4)
    for weight in (normal(out, width, dtype=dtype), normal(width, out, dtype=dtype).t()):
        multiplied = multiplier(weight, rows)
        expected = x @ weight.t()
        torch.testing.assert_close(multiplied(x), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(multiplied(x, grad), expected + grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(multiplied(x[:1]), expected[:1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_packed_matrices_only_where_full_precision_is_asked_for(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A packed matrix of MKL's knows no other: oneDNN is faster then, as it was asked to be."""
    packed = []

    def spy(weight: torch.Tensor, rows: int) -> object:
        packed.append(rows)
        return products._plain(weight)

    monkeypatch.setattr(products, "_blas_is_fast", lambda: True)
    monkeypatch.setattr(products, "_has_packed_blas", lambda: True)
    monkeypatch.setattr(products, "_by_onednn", lambda *factors: True)
    monkeypatch.setattr(products, "_by_packed_onednn", lambda weight, rows: products._plain(weight))
    monkeypatch.setattr(products, "_by_packed_blas", spy)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        multiplier(normal(220, 300, dtype=torch.float32), 40)
        assert products.smallest_worth_a_call() == (2**20 if precision == "highest" else 2**22)
    finally:
        torch.set_float32_matmul_precision(before)
    assert packed == ([40] if precision == "highest" else [])


@pytest.mark.parametrize("rows", [2, 5000])
def test_other_widths(rows: int) -> None:
    with pytest.raises(RuntimeError, match=f"shapes cannot be multiplied .{rows}x65 and 64x64"):
        linear(torch.randn(rows, 65), torch.randn(64, 64))


def test_bias_with_gaps() -> None:
    x, weight, bias = torch.randn(256, 128), torch.randn(128, 128), torch.randn(256)[::2]
    expected = torch.nn.functional.linear(x, weight, bias.clone())
    torch.testing.assert_close(linear(x, weight, bias), expected, rtol=1e-4, atol=1e-4)
