"""Files of every kind: text, JSON, YAML, safetensors; written in one step, checked when they are read."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .folders import LOCK, UNFINISHED, Place, alone_in, atomic_path, clear_unfinished
from .text import (
    csv_text,
    file_digest,
    json_digest,
    json_text,
    read_json,
    read_sealed,
    read_yaml,
    shortened,
    understood,
    write_sealed,
    write_text,
)

__all__ = [
    "LOCK",
    "UNFINISHED",
    "Place",
    "alone_in",
    "as_tensors",
    "atomic_path",
    "clear_unfinished",
    "csv_text",
    "file_digest",
    "json_digest",
    "json_text",
    "read_json",
    "read_sealed",
    "read_shapes",
    "read_tensors",
    "read_yaml",
    "shortened",
    "tensor_digest",
    "understood",
    "write_sealed",
    "write_tensors",
    "write_text",
]


def as_tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Arrays for :func:`write_tensors`."""
    return {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]
) -> str:
    """Write named tensors and a JSON ``header`` into one safetensors file, in one step.

    The same content gives the same bytes.

    Returns:
        SHA-256 of the tensors and the header, which the file holds too.

    Raises:
        OSError: The file cannot be written: names it.
    """
    # Strided tensors would be written wrong: safetensors takes the memory as it lies.
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(header)
    digest = tensor_digest(text, contiguous)
    with atomic_path(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata={"header": text, "digest": digest})
        except SafetensorError as error:  # says the system's number only in words
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]) if number else errno.EIO, str(error)) from error
        _put_in_order(temporary)
    return digest


def read_tensors(
    path: str | os.PathLike[str], digest: str | None = None, verify: bool = True
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors (memory-mapped, not copied) and the header that :func:`write_tensors` wrote.

    The whole file is read once, to compare its content with its digest: 0.4 to 2 GB per second. A file of an
    earlier version has none.

    Args:
        path: The file.
        digest: What :func:`write_tensors` gave, if that is known from elsewhere.
        verify: Compare digests.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged (for example cut short, or one bit differs), is another one than that
            of ``digest``, or was not written by this package.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
            header = json.loads(metadata["header"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        if not isinstance(header, dict):
            raise ValueError(f"header: expected an object, got {shortened(header)}")
        there = metadata.get("digest")
        if verify and (there or digest) and (found := tensor_digest(metadata["header"], tensors)) != there:
            raise ValueError(f"its content has digest {found[:12]}…, and it was written with {there}")
    except (SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise _not_whole(path, error) from error
    if digest is not None and there != digest:
        raise ValueError(f"{path}: another file than the one that was written with the JSON beside it")
    return tensors, header


def read_shapes(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor of a safetensors file, of which only the header is read.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: It is no safetensors file.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with safe_open(path, "pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _not_whole(path, error) from error


def _not_whole(path: str | os.PathLike[str], error: Exception) -> ValueError:
    return ValueError(
        f"{path}: not a whole safetensors file of wlkernelnn ({error}); it may have been cut short, "
        "delete it and write it again"
    )


def _put_in_order(path: Path) -> None:
    """Sort the metadata of a safetensors file, which come in a random order."""
    with open(path, "r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        described = json.loads(file.read(size))
        described["__metadata__"] = dict(sorted(described["__metadata__"].items()))
        text = json.dumps(described, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(text) <= size
        file.seek(8)
        file.write(text.ljust(size))


def tensor_digest(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of a header and named tensors on the processor, in the order of the names."""
    result = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        result.update(f" {name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        if tensor.numel():
            result.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()
