"""Packed stores in the user's cache, under names made from all that they depend on."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from wlkernelnn.datasets.files.download import cache_folder

from .packed import PackedGraphs


def cached_store(key: str, build: Callable[[], PackedGraphs]) -> PackedGraphs:
    """The store from the cache if it is there; else built, saved there, and opened memory-mapped.

    Args:
        key: Digest of everything that the store depends on.
        build: Makes the store.
    """
    path = cache_folder() / "packed" / f"{key}.safetensors"
    try:
        if path.is_file():
            return PackedGraphs.load(path)
    except ValueError as error:
        warnings.warn(f"damaged cache, built again: {error}", stacklevel=4)
    except OSError as error:
        warnings.warn(f"{path}: could not be read ({error}); going on without the cache", stacklevel=4)
        return build()
    data = build()
    try:
        data.save(path)
    except OSError as error:
        warnings.warn(f"{path}: could not be written ({error}); going on without the cache", stacklevel=4)
        return data
    return PackedGraphs.load(path)
