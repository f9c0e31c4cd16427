from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.sequence.layers.tokens import check_tokens

EMBEDDING = torch.nn.Embedding(5, 2)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_ids_in_range(dtype: torch.dtype) -> None:
    tokens = check_tokens("Model", torch.tensor([[0, 4, 2]], dtype=dtype), None, EMBEDDING)
    torch.testing.assert_close(tokens, torch.tensor([[0, 4, 2]]))
    check_tokens("Model", torch.tensor([], dtype=dtype), torch.tensor([0, 0]), EMBEDDING)


@pytest.mark.parametrize(
    ("ids", "shown"), [([0, 5], "0 … 5"), ([-1, 3], "-1 … 3")], ids=["too_large", "negative"]
)
def test_ids_out_of_range(ids: list[int], shown: str) -> None:
    with pytest.raises(IndexError, match=rf"ids {shown}, expected 0 … 4 \(num_tokens=5\)"):
        check_tokens("Model", torch.tensor([ids]), None, EMBEDDING)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool], ids=str)
def test_no_ids(dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"tokens must be integers, got {dtype}"):
        check_tokens("Model", torch.ones(1, 2, dtype=dtype), None, EMBEDDING)


def test_shapes() -> None:
    with pytest.raises(ValueError, match=r"Model needs tokens of shape \[B, T\], .* got \[2\] without ptr"):
        check_tokens("Model", torch.zeros(2, dtype=torch.int64), None, EMBEDDING)
    with pytest.raises(ValueError, match=r"got \[1, 2\] with ptr"):
        check_tokens("Model", torch.zeros(1, 2, dtype=torch.int64), torch.tensor([0, 2]), EMBEDDING)
    with pytest.raises(ValueError, match="Model: ptr ends at 3, x has 2 tokens"):
        check_tokens("Model", torch.zeros(2, dtype=torch.int64), torch.tensor([0, 3]), EMBEDDING)


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor], ids=["list", "array", "tensor"])
def test_ids_and_pointers_of_every_kind(kind: Callable[[list[Any]], Any]) -> None:
    found = check_tokens("Model", kind([0, 4, 2]), kind([0, 1, 3]), EMBEDDING)
    torch.testing.assert_close(found, torch.tensor([0, 4, 2]))
    assert check_tokens("Model", kind([[0, 4]]), None, EMBEDDING).tolist() == [[0, 4]]
