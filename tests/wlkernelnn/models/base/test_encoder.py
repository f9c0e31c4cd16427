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


def test_numbers_are_mapped_linearly(codes: torch.Tensor) -> None:
    numbers = torch.randint(256, (7, 4))
    encoder = CodeEncoder(DIMS, 6, num_values=4)
    alone = CodeEncoder(DIMS, 6)
    alone.table.load_state_dict(encoder.table.state_dict())
    assert encoder.values is not None
    expected = alone(codes) + numbers.float() / 255 @ encoder.values.weight.t()
    out = encoder(torch.cat([codes, numbers], dim=1))
    torch.testing.assert_close(out, expected)
    out.sum().backward()
    torch.testing.assert_close(
        encoder.values.weight.grad, (numbers.float() / 255).sum(0).expand(6, -1), rtol=1e-5, atol=1e-5
    )
    assert encoder(torch.zeros(0, 7, dtype=torch.int64)).shape == (0, 6)
    assert encoder.double()(torch.cat([codes, numbers], dim=1)).dtype == torch.float64


def test_without_numbers_there_is_nothing_to_map() -> None:
    """So that weights of networks from before there were any fit."""
    assert list(CodeEncoder(DIMS, 6).state_dict()) == ["table.weight"]


def test_reset_draws_all_weights_anew() -> None:
    encoder = CodeEncoder(DIMS, 6, num_values=4)
    before = [weight.clone() for weight in encoder.parameters()]
    encoder.reset_parameters()
    assert len(before) == 2
    assert not any(map(torch.equal, before, encoder.parameters()))


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


def test_codes_that_are_no_integers() -> None:
    for dtype in [torch.float32, torch.complex64]:
        with pytest.raises(ValueError, match=f"expected integer codes, got x of {dtype}"):
            CodeEncoder(DIMS, 6)(torch.zeros(4, 3, dtype=dtype))


def test_wrong_number_of_columns() -> None:
    with pytest.raises(ValueError, match=r"expected codes of shape \[N, 7\], got \[4, 3\]"):
        CodeEncoder(DIMS, 6, num_values=4)(torch.zeros(4, 3, dtype=torch.int64))


def test_number_out_of_range() -> None:
    for number in [-1, 256]:
        x = torch.zeros(4, 7, dtype=torch.int64)
        x[1, 5] = number
        with pytest.raises(IndexError, match=r"codes of column 5 are .*, expected 0 … 255"):
            CodeEncoder(DIMS, 6, num_values=4)(x)


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


def test_a_negative_number_of_numbers() -> None:
    with pytest.raises(ValueError, match="num_values must be an integer of at least 0, got -1"):
        CodeEncoder(DIMS, 6, num_values=-1)


def test_repr() -> None:
    assert repr(CodeEncoder(DIMS, 6)) == "CodeEncoder([3, 5, 2], 6)"
    assert repr(CodeEncoder(DIMS, 6, num_values=4)) == "CodeEncoder([3, 5, 2], 6, num_values=4)"
