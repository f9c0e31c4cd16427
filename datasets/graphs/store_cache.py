"""Packed stores in the user's cache, under names made from all that they depend on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from wlkernelnn.datasets.files.download import cache_folder

from .packed import PackedGraphs


def cached_store(key: str, build: Callable[[], PackedGraphs]) -> PackedGraphs:
    """The store ``key``, a digest of all that it depends on, from the cache, memory-mapped; else built."""
    path = cache_folder() / "packed" / f"{key}.safetensors"
    try:
        if path.is_file():
            return PackedGraphs.load(path)
    except ValueError as error:
        warnings.warn(f"damaged cache, built again: {error}", stacklevel=3)
    except OSError as error:
        warnings.warn(f"{path}: could not be read ({error}); going on without the cache", stacklevel=3)
        return build()
    data = build()
    try:
        data.save(path)
    except OSError as error:
        warnings.warn(f"{path}: could not be written ({error}); going on without the cache", stacklevel=3)
        return data
    return PackedGraphs.load(path)
