from __future__ import annotations

from typing import Any

import pytest
import torch

from wlkernelnn.datasets import draw_snippets

TEXT = torch.arange(1_000)  # every token says where it stood


def test_labels_follow_and_nothing_overlaps() -> None:
    parts = draw_snippets(TEXT, 20, (10, 30))
    assert [len(part) for part in parts] == [10, 30]
    seen: list[int] = []
    for part in parts:
        for i in range(len(part)):
            read, following = part[i], part.y[i]
            torch.testing.assert_close(following, read + 1)
            assert len(read) == 19
            seen += [*read.tolist(), int(following[-1])]
    assert len(set(seen)) == len(seen) == 800


def test_drawn_by_the_seed() -> None:
    (one,), (same,), (other,) = (draw_snippets(TEXT, 5, [200], seed) for seed in (0, 0, 1))
    torch.testing.assert_close(one.tokens, same.tokens)
    assert not torch.equal(one.tokens, other.tokens)
    assert one.tokens[:8].tolist() != list(range(4)) + list(range(5, 9))  # not in the order of the text


def test_parts_before_the_last_stay() -> None:
    few, many = draw_snippets(TEXT, 20, (5, 3, 10)), draw_snippets(TEXT, 20, (5, 3, 42))
    for one, other in zip(few[:2], many, strict=False):
        torch.testing.assert_close(one.tokens, other.tokens)
    torch.testing.assert_close(few[2].y, many[2].y[:10])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((TEXT.view(2, -1), 20, (1,)), r"tokens must be \[N\], got shape \[2, 500\]"),
        ((TEXT, 1, (1,)), "length must be at least 2"),
        ((TEXT, 20, (4, 0)), r"sizes must be at least 1, for at least one part, got \[4, 0\]"),
        ((TEXT, 20, ()), "sizes must be at least 1"),
        ((TEXT[:999], 20, (25, 25)), "50 snippets of 20 tokens need 1,000 tokens, got 999"),
    ],
)
def test_bad_arguments(arguments: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        draw_snippets(*arguments)
