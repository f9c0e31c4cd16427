from __future__ import annotations

import importlib

import pytest
import torch
from torch import Tensor

from tests.inputs.graphs import assert_same_with_gradients
from wlkernelnn.ops.graph import table_rows

module = importlib.import_module("wlkernelnn.ops.graph.table_rows")
DEVICES = pytest.mark.parametrize(
    "device",
    ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))],
)


def product_rows(table: Tensor, index: Tensor) -> Tensor:
    """With the gradient of a GPU, on any device."""
    return module._table_rows(table, index)[0]


@DEVICES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "edges"), [(4, 50), (1, 3), (5, 1), (3, 0)])
def test_same_as_index_select(rows: int, edges: int, dtype: torch.dtype, device: str) -> None:
    index = torch.randint(rows, (edges,))
    table = torch.randn(rows, 6).to(dtype).requires_grad_()
    for way in (product_rows, table_rows):
        # bfloat16 rounds sums in another order; the values are rows in every type.
        tolerance = {"rtol": 2e-2, "atol": 2e-1} if dtype == torch.bfloat16 else {}
        out = way(table.to(device), index.to(device))
        assert torch.equal(out.cpu(), table[index])
        cotangent = torch.randn(edges, 6).to(dtype)
        found = torch.autograd.grad(out, table, cotangent.to(device))[0]
        exact = torch.zeros(rows, 6, dtype=torch.float64).index_add(0, index, cotangent.double())
        torch.testing.assert_close(found, exact.to(dtype), **tolerance)


def test_second_derivatives() -> None:
    index = torch.tensor([0, 2, 2, 1, 0])
    table = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda table: product_rows(table**3, index), (table,))


def test_strided_cotangents() -> None:
    index = torch.tensor([0, 2, 2, 1, 0])
    assert_same_with_gradients(
        lambda table: product_rows(table, index).t(),
        lambda table: table[index].t(),
        [torch.randn(3, 2, dtype=torch.float64, requires_grad=True)],
    )


def test_gradients_keep_their_digits_under_autocast() -> None:
    index = torch.randint(3, (1000,))
    table, cotangent = torch.randn(3, 4, requires_grad=True), torch.randn(1000, 4)
    exact = torch.zeros(3, 4).index_add(0, index, cotangent)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(product_rows(table, index), table, cotangent)[0]
    torch.testing.assert_close(found, exact)


@pytest.mark.parametrize(("rows", "product"), [(32, True), (33, False)])
def test_tables_of_few_rows_on_a_gpu(rows: int, product: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class PretendsToBeOnGpu(torch.Tensor):
        is_cuda = True  # type: ignore[assignment]

    calls = []
    monkeypatch.setattr(module, "_table_rows", lambda *values: calls.append(values) or values)
    index = torch.tensor([1, 0])
    table_rows(torch.randn(rows, 2).as_subclass(PretendsToBeOnGpu), index)
    assert bool(calls) == product
    table_rows(torch.randn(rows, 2), index)
    assert len(calls) == product  # never for a table on a CPU
