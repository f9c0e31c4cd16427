from __future__ import annotations

import pytest
import torch

from wlkernelnn.sequence.layers.tokens import check_tokens


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_ids_in_range(dtype: torch.dtype) -> None:
    tokens = check_tokens("Model", torch.tensor([[0, 4, 2]], dtype=dtype), None, 5)
    torch.testing.assert_close(tokens, torch.tensor([[0, 4, 2]]))
    check_tokens("Model", torch.tensor([], dtype=dtype), torch.tensor([0, 0]), 5)


@pytest.mark.parametrize(
    ("ids", "shown"), [([0, 5], "0 … 5"), ([-1, 3], "-1 … 3")], ids=["too_large", "negative"]
)
def test_ids_out_of_range(ids: list[int], shown: str) -> None:
    with pytest.raises(IndexError, match=rf"ids {shown}, expected 0 … 4 \(num_tokens=5\)"):
        check_tokens("Model", torch.tensor([ids]), None, 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_no_ids(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"tokens must be integers, got {dtype}"):
        check_tokens("Model", torch.ones(1, 2, dtype=dtype), None, 5)


def test_shapes() -> None:
    with pytest.raises(ValueError, match=r"Model needs tokens of shape \[B, T\], .* got \[2\] without ptr"):
        check_tokens("Model", torch.zeros(2, dtype=torch.int64), None, 5)
    with pytest.raises(ValueError, match=r"got \[1, 2\] with ptr"):
        check_tokens("Model", torch.zeros(1, 2, dtype=torch.int64), torch.tensor([0, 2]), 5)
    with pytest.raises(ValueError, match="Model: ptr ends at 3, there are 2 tokens"):
        check_tokens("Model", torch.zeros(2, dtype=torch.int64), torch.tensor([0, 3]), 5)
