from __future__ import annotations

import pytest
import torch

from wlkernelnn.models import CodeEncoder

DIMS = (3, 5, 2)


@pytest.fixture
def codes() -> torch.Tensor:
    return torch.stack([torch.randint(dim, (7,)) for dim in DIMS], dim=1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_is_a_linear_map_of_one_hot_columns(codes: torch.Tensor, dtype: torch.dtype) -> None:
    encoder = CodeEncoder(DIMS, 6)
    one_hot = [torch.nn.functional.one_hot(codes[:, i], dim).float() for i, dim in enumerate(DIMS)]
    expected = torch.cat(one_hot, dim=1) @ encoder.table.weight
    torch.testing.assert_close(encoder(codes.to(dtype)), expected)


def test_gradient_counts_the_codes(codes: torch.Tensor) -> None:
    encoder = CodeEncoder(DIMS, 2)
    encoder(codes).sum().backward()
    counts = torch.cat([codes[:, i].bincount(minlength=dim) for i, dim in enumerate(DIMS)])
    torch.testing.assert_close(encoder.table.weight.grad, counts.float()[:, None].expand(-1, 2))


def test_variance_is_one_at_the_start() -> None:
    torch.manual_seed(1)
    encoder = CodeEncoder((50,) * 9, 64)
    assert encoder(torch.randint(50, (500, 9))).std().item() == pytest.approx(1.0, rel=0.05)


def test_no_nodes() -> None:
    out = CodeEncoder(DIMS, 6)(torch.zeros(0, 3, dtype=torch.int64))
    assert out.shape == (0, 6)


@pytest.mark.parametrize("shape", [(4,), (4, 2), (4, 4), (4, 3, 1)], ids=str)
def test_wrong_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected codes of shape \[N, 3\], got \[4"):
        CodeEncoder(DIMS, 6)(torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize(("code", "shown"), [(-1, "-1 … 0"), (5, "0 … 5")])
def test_code_out_of_range_names_the_column(code: int, shown: str) -> None:
    codes = torch.zeros(4, 3, dtype=torch.int64)
    codes[2, 1] = code
    with pytest.raises(IndexError, match=rf"codes of column 1 are {shown}, expected 0 … 4"):
        CodeEncoder(DIMS, 6)(codes)


@pytest.mark.parametrize("dims", [(), (3, 0)], ids=str)
def test_wrong_sizes(dims: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least one column of at least one value"):
        CodeEncoder(dims, 6)


def test_repr() -> None:
    assert repr(CodeEncoder(DIMS, 6)) == "CodeEncoder([3, 5, 2], 6)"
