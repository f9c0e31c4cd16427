"""Writing files so that a reader never sees half of one, and safetensors with JSON beside the tensors."""

from __future__ import annotations

import csv
import json
import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

# Stays in a folder that somebody was alone in.
LOCK = ".lock"


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name once the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp and safetensors make files that only their owner reads
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write ``text`` to ``path`` in one step (UTF-8)."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Work in a folder, which is made, that no other process works in at the time.

    Raises:
        FileExistsError: One does.
        NotADirectoryError: ``folder`` is a file.
    """
    folder = Path(folder)
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=0, is_singleton=True)  # one who is alone there may say so again
    try:
        lock.acquire()
    except Timeout:
        raise FileExistsError(
            f"{folder}: another process works there; wait for it, or choose another folder"
        ) from None
    try:
        yield
    finally:
        lock.release()


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


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        ValueError: It is no JSON: says which file.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not JSON, or not even text
        raise ValueError(f"{path}: not JSON ({error})") from error


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_tensors(
    path: str | os.PathLike[str], tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any]
) -> None:
    """Write named tensors and a JSON ``header`` into one safetensors file, in one step."""
    # Strided tensors would be written wrong: safetensors takes the memory as it lies.
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        save_file(contiguous, temporary, metadata={"header": json.dumps(header)})


def read_tensors(path: str | os.PathLike[str]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The tensors (memory-mapped, not copied) and the header that :func:`write_tensors` wrote.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is damaged (for example cut short) or was not written by this package.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})["header"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(
            f"{path}: not a whole safetensors file of wlkernelnn ({error}); it may have been cut short, "
            "delete it and write it again"
        ) from error
    return tensors, header
