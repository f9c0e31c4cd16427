"""Two processes that build the same store; damaged caches are in tests/wlkernelnn/training/test_damage.py."""

from __future__ import annotations

import pickle

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
