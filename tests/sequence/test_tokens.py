from __future__ import annotations

import pytest
import torch

from wlkernelnn.sequence.tokens import check_tokens


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_ids_in_range(dtype: torch.dtype) -> None:
    check_tokens(torch.tensor([0, 4, 2], dtype=dtype), 5)
    check_tokens(torch.tensor([], dtype=dtype), 5)


@pytest.mark.parametrize(
    ("ids", "shown"), [([0, 5], "0 … 5"), ([-1, 3], "-1 … 3")], ids=["too_large", "negative"]
)
def test_ids_out_of_range(ids: list[int], shown: str) -> None:
    with pytest.raises(IndexError, match=rf"ids {shown}, expected 0 … 4 \(num_tokens=5\)"):
        check_tokens(torch.tensor([ids]), 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_no_ids(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"tokens must be integers, got {dtype}"):
        check_tokens(torch.ones(2, dtype=dtype), 5)
