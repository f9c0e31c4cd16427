from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import BPTTLoader


def test_streams_of_a_small_text() -> None:
    loader = BPTTLoader(torch.arange(12), batch_size=2, bptt=3)
    assert len(loader) == 2
    assert loader.num_targets == 10
    (x, y), (x_rest, y_rest) = loader
    assert x.tolist() == [[0, 1, 2], [5, 6, 7]]
    assert y.tolist() == [[1, 2, 3], [6, 7, 8]]
    assert x_rest.tolist() == [[3, 4], [8, 9]]
    assert y_rest.tolist() == [[4, 5], [9, 10]]


@settings(deadline=None, max_examples=100)
@given(
    length=st.integers(2, 60), batch_size=st.integers(1, 8), bptt=st.integers(1, 20), seed=st.integers(0, 99)
)
def test_rows_go_on_and_nothing_is_lost(length: int, batch_size: int, bptt: int, seed: int) -> None:
    batch_size = min(batch_size, length - 1)
    tokens = torch.randint(50, (length,), generator=torch.Generator().manual_seed(seed))
    loader = BPTTLoader(tokens, batch_size, bptt)
    batches = list(loader)
    assert len(batches) == len(loader)
    assert all(x.shape == y.shape == (batch_size, bptt) for x, y in batches[:-1])
    inputs, targets = (torch.cat(parts, dim=1).flatten() for parts in zip(*batches, strict=True))
    used = (length - 1) - (length - 1) % batch_size
    assert torch.equal(inputs, tokens[:used])
    assert torch.equal(targets, tokens[1 : used + 1])
    assert loader.num_targets == used
    if batch_size == 1:
        assert used == length - 1
    # A second epoch is the same.
    assert all(torch.equal(a, b) for (a, _), (b, _) in zip(batches, loader, strict=True))


def test_batches_are_views() -> None:
    tokens = torch.arange(100)
    for part in next(iter(BPTTLoader(tokens, 3, 5))):
        assert part.untyped_storage().data_ptr() == tokens.untyped_storage().data_ptr()


def test_texts_and_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"5 streams need at least 6 tokens .* got 5"):
        BPTTLoader(torch.arange(5), batch_size=5)
    assert len(BPTTLoader(torch.arange(6), batch_size=5)) == 1
    with pytest.raises(ValueError, match=r"tokens must be \[N\], got shape \[2, 3\]"):
        BPTTLoader(torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        BPTTLoader(torch.arange(6), batch_size=0)
    with pytest.raises(ValueError, match="bptt must be at least 1, got 0"):
        BPTTLoader(torch.arange(6), bptt=0)
