"""Text, JSON, YAML and safetensors as files: written in one step, checked when they are read."""

from __future__ import annotations

import csv
import errno
import hashlib
import json
import math
import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .folders import LOCK, UNFINISHED, Place, alone_in, atomic_path, clear_unfinished

__all__ = [
    "LOCK",
    "UNFINISHED",
    "Place",
    "alone_in",
    "atomic_path",
    "clear_unfinished",
    "csv_text",
    "file_digest",
    "json_text",
    "read_json",
    "read_sealed",
    "read_shapes",
    "read_tensors",
    "read_yaml",
    "shortened",
    "write_sealed",
    "write_tensors",
    "write_text",
]

# The entry of a JSON object that is a digest of the others.
SEAL = "digest"
# Levels of a YAML file: lists in options need two.
DEEPEST = 20


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` in one step (UTF-8)."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, with quotes around whatever needs them; lines end as Unix has it.

    Before Python 3.13 the library's writer leaves quotes out of a cell with a carriage return, unless it ends
    lines with one.
    """
    lines: list[str] = []
    csv.writer(SimpleNamespace(write=lines.append), lineterminator="\r\n").writerows(rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def json_text(value: Any, indent: int | None = None) -> str:
    """``value`` as JSON; NaN and the infinities, which JSON lacks, become null."""
    return json.dumps(_finite(value), indent=indent, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        ValueError: It is no JSON, or nested without end: says which file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not JSON, or not even text
        raise ValueError(f"{path}: not JSON ({error})") from error


def write_sealed(path: str | os.PathLike[str], content: Mapping[str, Any], indent: int | None = 2) -> None:
    """Write a JSON object with a digest of itself, for :func:`read_sealed`."""
    content = json.loads(json_text(content))  # as it comes from a file
    write_text(path, json_text({**content, SEAL: _seal(content)}, indent))


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON object that :func:`write_sealed` wrote; one without a digest, of an earlier version, as it is.

    Raises:
        ValueError: It is no JSON object, or not the one that was written: says which file.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, got {shortened(content)}")
    if (seal := content.pop(SEAL, None)) is not None and seal != _seal(content):
        raise ValueError(
            f"{path}: not what was written there (another digest): damaged or edited; restore it, or, if the "
            f'edit is meant, delete its entry "{SEAL}"'
        )
    return content


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_yaml(path: str | os.PathLike[str], loader: type[Any]) -> Any:
    """What a YAML file holds, read by a ``loader`` of PyYAML.

    Raises:
        OSError: The file cannot be opened.
        ValueError: It is no YAML, or nested more than 20 deep: says which file.
    """
    import yaml

    depth = 0
    try:
        text = Path(path).read_text(encoding="utf-8")
        for event in yaml.parse(text, loader):  # does not recurse, as the rest of the reader does
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST:
                raise ValueError(f"nested more than {DEEPEST} deep, in line {event.start_mark.line + 1}")
        return yaml.load(text, loader)
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: not YAML: {error}") from error


def file_digest(path: Path) -> str:
    """SHA-256 of the bytes of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shortened(value: Any) -> str:
    """A value for a message, however large it is."""
    return reprlib.repr(value)


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]
) -> str:
    """Write named tensors and a JSON ``header`` into one safetensors file, in one step.

    Returns:
        SHA-256 of the tensors and the header, which the file holds too.

    Raises:
        OSError: The file cannot be written: names it.
    """
    # Strided tensors would be written wrong: safetensors takes the memory as it lies.
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(header)
    digest = _tensor_digest(text, contiguous)
    with atomic_path(path) as temporary:
        try:
            save_file(contiguous, temporary, metadata={"header": text, "digest": digest})
        except SafetensorError as error:  # says the system's number only in words
            number = re.search(r"os error (\d+)", str(error))
            raise OSError(int(number[1]) if number else errno.EIO, str(error)) from error
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
        if verify and (there or digest) and (found := _tensor_digest(metadata["header"], tensors)) != there:
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


def _tensor_digest(header: str, tensors: Mapping[str, torch.Tensor]) -> str:
    result = hashlib.sha256(header.encode())
    for name, tensor in sorted(tensors.items()):
        result.update(f" {name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        if tensor.numel():
            result.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return result.hexdigest()
