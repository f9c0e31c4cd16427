from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.inputs.graphs import assert_same_with_gradients
from wlkernelnn.ops.graph import segment_sum, segments
from wlkernelnn.ops.graph.neighbor_sum import bag_sum

LENGTHS = {
    "mixed": [3, 0, 1, 4],
    "empty_ends": [0, 0, 2, 0],
    "one": [5],
    "all_empty": [0, 0],
    "none": [],
}


def pointers_of(lengths: list[int]) -> tuple[Tensor, Tensor]:
    counts = torch.tensor(lengths, dtype=torch.int64)
    indptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return indptr, torch.arange(len(lengths)).repeat_interleave(counts)


def index_add(values: Tensor, segment: Tensor, size: int) -> Tensor:
    return values.new_zeros(size, values.size(1)).index_add(0, segment, values)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_segment_sum(lengths: list[int], dtype: torch.dtype) -> None:
    indptr, segment = pointers_of(lengths)
    values = torch.randn(sum(lengths), 3, dtype=dtype, requires_grad=True)
    assert_same_with_gradients(
        lambda values: segment_sum(values, indptr, segment),
        lambda values: index_add(values, segment, len(lengths)),
        [values],
    )


def test_segment_sum_of_strided_values() -> None:
    indptr, segment = pointers_of(LENGTHS["mixed"])
    values = torch.randn(3, 8).t()
    torch.testing.assert_close(segment_sum(values, indptr, segment), index_add(values, segment, 4))
    expanded = torch.randn(1, 3).expand(8, 3)
    torch.testing.assert_close(segment_sum(expanded, indptr, segment), index_add(expanded, segment, 4))


def test_segment_sum_twice_differentiable() -> None:
    indptr, segment = pointers_of(LENGTHS["mixed"])
    values = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda values: segment_sum(values**3, indptr, segment), (values,))


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
def test_bag_sum(weighted: bool) -> None:
    indptr, bag = pointers_of(LENGTHS["mixed"])
    x = torch.randn(6, 3)
    index = torch.tensor([5, 5, 0, 1, 2, 3, 0, 0])
    weight = torch.randn(8) if weighted else None
    rows = x[index] if weight is None else weight.unsqueeze(1) * x[index]
    torch.testing.assert_close(bag_sum(x, index, indptr, weight), index_add(rows, bag, 4))


def test_bag_sum_without_rows() -> None:
    empty = torch.zeros(0, dtype=torch.int64)
    out = bag_sum(torch.zeros(0, 3), empty, torch.tensor([0, 0, 0]))
    assert out.tolist() == [[0.0] * 3] * 2


# torch-scatter is optional, and is used on a GPU alone.


def scatter_csr(values: Tensor, indptr: Tensor) -> Tensor:
    torch_scatter = pytest.importorskip("torch_scatter", reason="torch-scatter is not installed")
    return torch_scatter.segment_csr(values, indptr, reduce="sum")


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_torch_scatter_computes_the_same(lengths: list[int]) -> None:
    indptr, segment = pointers_of(lengths)
    values = torch.randn(sum(lengths), 3, dtype=torch.float64, requires_grad=True)
    assert_same_with_gradients(
        lambda values: segment_sum(values, indptr, segment),
        lambda values: scatter_csr(values, indptr),
        [values],
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("installed", [False, True], ids=["torch_alone", "torch_scatter"])
def test_on_a_gpu(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if installed:
        pytest.importorskip("torch_scatter", reason="torch-scatter is not installed")
    else:
        monkeypatch.setattr(segments, "segment_csr", None)
    indptr, segment = pointers_of(LENGTHS["mixed"])
    values = torch.randn(8, 3, dtype=torch.float64, requires_grad=True)
    assert_same_with_gradients(
        lambda values: segment_sum(values.cuda(), indptr.cuda(), segment.cuda()).cpu(),
        lambda values: index_add(values, segment, 4),
        [values],
    )


class PretendsToBeOnGpu(torch.Tensor):
    is_cuda = True  # type: ignore[assignment]


@pytest.mark.parametrize("installed", [False, True], ids=["torch_alone", "torch_scatter"])
def test_torch_scatter_is_used_on_a_gpu_if_it_is_there(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def stand_in(values: Tensor, indptr: Tensor, reduce: str) -> Tensor:
        calls.append(reduce)
        return index_add(values, torch.arange(indptr.numel() - 1).repeat_interleave(indptr.diff()), 4)

    monkeypatch.setattr(segments, "segment_csr", stand_in if installed else None)
    indptr, segment = pointers_of(LENGTHS["mixed"])
    values = torch.randn(8, 3)
    out = segment_sum(values.as_subclass(PretendsToBeOnGpu), indptr, segment)
    assert calls == (["sum"] if installed else [])
    torch.testing.assert_close(out.as_subclass(torch.Tensor), index_add(values, segment, 4))
    segment_sum(values, indptr, segment)
    assert len(calls) == int(installed)  # never for tensors on a CPU
