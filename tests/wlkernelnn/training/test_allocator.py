from __future__ import annotations

import platform
import resource
from collections.abc import Iterator

import pytest
import torch

from wlkernelnn.training import allocator
from wlkernelnn.training.allocator import freed_memory_kept

if platform.libc_ver()[0] != "glibc":
    pytest.skip("only glibc is told", allow_module_level=True)

SIZE = 100_000_000
PAGES = SIZE // resource.getpagesize()


@pytest.fixture(autouse=True)
def given_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(allocator, "_users", 0)
    yield
    allocator._give_back()


def fresh_pages() -> int:
    """How many pages the system had to give for a large tensor, which is freed at once."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(SIZE // 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def fewest_pages() -> int:
    """The same, of some tries: free places of that size take turns before all have been used."""
    fewest = PAGES
    for _ in range(100):  # a process that ran other tests may have many
        fewest = min(fewest, fresh_pages())
        if fewest < PAGES / 10:
            break
    return fewest


def test_freed_memory_is_used_again() -> None:
    with freed_memory_kept():
        assert fewest_pages() < PAGES / 10


def test_it_is_given_back_at_the_end_of_the_outermost_block() -> None:
    with freed_memory_kept():
        with freed_memory_kept():
            fewest_pages()
        assert fewest_pages() < PAGES / 10
    assert fresh_pages() > PAGES / 1000  # huge pages count once
