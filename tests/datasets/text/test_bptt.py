"""Tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from wlkernelnn.datasets import BPTTLoader, RandomBPTTLoader


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
    with pytest.raises(ValueError, match=r"tokens must be integers \[N\], got torch.int64 \[2, 3\]"):
        BPTTLoader(torch.zeros(2, 3, dtype=torch.long))
    with pytest.raises(ValueError, match="batch_size must be an integer of at least 1, got 0"):
        BPTTLoader(torch.arange(6), batch_size=0)
    with pytest.raises(ValueError, match="bptt must be an integer of at least 1, got 0"):
        BPTTLoader(torch.arange(6), bptt=0)


@settings(deadline=None, max_examples=60)
@given(
    length=st.integers(2, 400),
    batch_size=st.integers(1, 6),
    bptt=st.integers(1, 40),
    seed=st.integers(0, 9),
    epoch=st.integers(0, 9),
)
def test_no_token_is_lost_or_repeated(length: int, batch_size: int, bptt: int, seed: int, epoch: int) -> None:
    batch_size = min(batch_size, length - 1)
    tokens = torch.randint(50, (length,), generator=torch.Generator().manual_seed(seed))
    loader = RandomBPTTLoader(tokens, batch_size, bptt, seed)
    loader.epoch = epoch
    expected = loader.lengths()
    came = list(loader)
    assert [x.size(1) for x, _ in came] == expected
    ((inputs, targets),) = BPTTLoader(tokens, batch_size, length)
    assert torch.equal(torch.cat([x for x, _ in came], 1), inputs)
    assert torch.equal(torch.cat([y for _, y in came], 1), targets)
    assert loader.num_targets == targets.numel()


def test_lengths_follow_the_rule() -> None:
    """Mostly around bptt, one in twenty around its half, never below 5; the last one has what is left."""
    lengths = torch.tensor(RandomBPTTLoader(torch.arange(500_001), 1, bptt=70).lengths()[:-1])
    halved = lengths < 52  # between both: neither comes here by chance
    assert 0.04 < halved.double().mean() < 0.06
    for part, centre in ((lengths[~halved], 70.0), (lengths[halved], 35.0)):
        # ⌊z⌋ is half a token less than z.
        assert abs(float(part.double().mean()) + 0.5 - centre) < 0.7
        assert 4.4 < float(part.double().std()) < 5.6
    short = RandomBPTTLoader(torch.arange(1001), 1, bptt=4).lengths()
    assert min(short[:-1]) == 5
    assert max(short) > 5


def test_lengths_depend_on_seed_and_epoch_alone() -> None:
    tokens = torch.arange(5000)

    def lengths(seed: int, epoch: int) -> list[int]:
        loader = RandomBPTTLoader(tokens, 2, 20, seed)
        loader.epoch = epoch
        return loader.lengths()

    assert lengths(0, 1) == lengths(0, 1)
    assert len({tuple(lengths(seed, epoch)) for seed in (0, 1) for epoch in (0, 1)}) == 4
    # An epoch that was read is followed by the next one.
    loader = RandomBPTTLoader(tokens, 2, 20)
    for epoch in range(2):
        assert [x.size(1) for x, _ in loader] == lengths(0, epoch)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="bptt must be an integer of at least 1, got 0"):
        RandomBPTTLoader(torch.arange(6), 2, bptt=0)
    with pytest.raises(ValueError, match="6 streams need at least 7 tokens"):
        RandomBPTTLoader(torch.arange(6), 6)
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        RandomBPTTLoader(torch.arange(6), 2, seed=-1)
    for tokens in ("abc", None):
        with pytest.raises(ValueError, match=rf"tokens must be integers \[N\], got {tokens!r}"):
            BPTTLoader(tokens, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [list, np.array, lambda ids: torch.tensor(ids, dtype=torch.int16)])
def test_ids_of_every_kind(kind: Callable[[list[int]], Any]) -> None:
    for loader in (BPTTLoader, RandomBPTTLoader):
        inputs, targets = next(iter(loader(kind(list(range(9))), 2, 3)))
        assert (inputs.dtype, targets.dtype) == (torch.int64, torch.int64)
        assert targets[:, :3].tolist() == [[1, 2, 3], [5, 6, 7]]
    with pytest.raises(ValueError, match=r"tokens must be integers \[N\], got torch.float32 \[2\]"):
        BPTTLoader(torch.zeros(2))
    with pytest.raises(ValueError, match=r"bptt must be an integer of at least 1, got 2\.5"):
        BPTTLoader(torch.arange(9), 2, 2.5)
