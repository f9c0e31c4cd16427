"""Packed stores in the user's cache, under names made from all that they depend on.

They hold SMILES and targets: the folder is made for its owner alone.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from wlkernelnn.datasets.files.download import cache_folder
from wlkernelnn.utils.files import read_tensors

from .packed import PackedGraphs

#: Bytes that all stores take together, at most: those that were not used for longest go.
MOST_BYTES = 10 * 2**30


def store_folder() -> Path | None:
    """Where stores are kept; ``None`` if there is no cache."""
    folder = cache_folder()
    return None if folder is None else folder / "packed"


def cached_store(key: str, build: Callable[[], PackedGraphs]) -> PackedGraphs:
    """The store ``key``, a digest of all that it depends on, from the cache, memory-mapped; else built."""
    folder = store_folder()
    if folder is None:
        return build()
    path = folder / f"{key}.safetensors"
    damaged = False
    try:
        if path.is_file():
            _used_now(path)
            return PackedGraphs.load(path, key=key)
    except ValueError as error:
        damaged = True
        warnings.warn(f"damaged cache, built again: {error}", stacklevel=3)
    except OSError as error:
        warnings.warn(f"{path}: could not be read ({error}); going on without the cache", stacklevel=3)
        return build()
    data = build()
    if data.nbytes > MOST_BYTES:
        return data
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_file() and not damaged:  # another process has built it too: it holds that file open
            with suppress(ValueError):
                return PackedGraphs.load(path, key=key)
        data.save(path, key)
        shrink(folder, MOST_BYTES, path)
        return PackedGraphs._load(path, *read_tensors(path, verify=False))  # written just now
    except OSError as error:
        warnings.warn(f"{path}: could not be written ({error}); going on without the cache", stacklevel=3)
        return data


def stores(folder: Path) -> list[tuple[Path, int]]:
    """Stores and their bytes, the one that was not used for longest first."""
    found = []
    for path in folder.glob("*.safetensors"):
        with suppress(OSError):  # another process may have removed it
            about = path.stat()
            found.append((about.st_atime, path, about.st_size))
    return [(path, size) for _, path, size in sorted(found)]


def shrink(folder: Path, most: int, kept: Path | None = None) -> int:
    """Remove stores, but not ``kept``, until all take at most so many bytes together: how many went."""
    found, removed = stores(folder), 0
    total = sum(size for _, size in found)
    for path, size in found:
        if total <= most:
            break
        if path != kept:
            path.unlink(missing_ok=True)
            total, removed = total - size, removed + 1
    return removed


def _used_now(path: Path) -> None:
    """Note the use, which not all file systems do; the time of the content stays."""
    with suppress(OSError):  # of a folder that is only read
        # In one step: other processes know the file that they have opened by its time.
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
