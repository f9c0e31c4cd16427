"""Two processes that build the same store; damaged caches are in tests/wlkernelnn/training/test_damage.py."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.store_cache import cached_store


@pytest.mark.usefixtures("own_cache")
def test_two_processes_build_the_same_store_at_once() -> None:
    first: list[PackedGraphs] = []

    def build() -> PackedGraphs:
        first.append(cached_store("two-at-once", lambda: random_packed(5)))  # the other one is ready before
        return random_packed(5)

    second = cached_store("two-at-once", build)
    for store in (first[0], second):
        again = pickle.loads(pickle.dumps(store))  # travels as the path of its file
        assert again.digest() == store.digest()
        assert again._path == second._path


def test_a_hit_never_changes_the_time_that_others_know_a_file_by(monkeypatch: pytest.MonkeyPatch) -> None:
    store = cached_store("used", lambda: random_packed(5))
    assert store._path is not None
    path, times, utime = Path(store._path), [], os.utime

    def noted(*args: Any, **options: Any) -> None:
        utime(*args, **options)
        times.append(path.stat().st_mtime_ns)

    modified = path.stat().st_mtime_ns
    utime(path, ns=(0, modified))
    monkeypatch.setattr(os, "utime", noted)
    cached_store("used", lambda: random_packed(5))
    assert times
    assert {*times} == {modified}
    assert path.stat().st_atime_ns > 0
