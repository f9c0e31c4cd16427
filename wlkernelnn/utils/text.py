"""Text, CSV, JSON and YAML as files: written in one step, checked when they are read. Without torch."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .folders import atomic_path

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
    write_text(path, json_text({**content, SEAL: json_digest(content)}, indent))


def read_sealed(path: Path) -> dict[str, Any]:
    """The JSON object that :func:`write_sealed` wrote; one without a digest, of an earlier version, as it is.

    Raises:
        ValueError: It is no JSON object, or not the one that was written: says which file.
    """
    content = read_json(path)
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a JSON object, got {shortened(content)}")
    if (seal := content.pop(SEAL, None)) is not None and seal != json_digest(content):
        raise ValueError(
            f"{path}: not what was written there (another digest): damaged or edited; restore it, or, if the "
            f'edit is meant, delete its entry "{SEAL}"'
        )
    return content


@contextmanager
def understood(path: str | os.PathLike[str], form: str) -> Iterator[None]:
    """Raise a ValueError that names ``path`` where its content cannot be taken as what it should be.

    A file that is missing stays a FileNotFoundError.

    Args:
        path: The file, or the folder of several.
        form: As what it should be: "a machine is saved".
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:  # of many kinds: a file can say anything
        raise ValueError(f"{path}: not as {form} ({type(error).__name__}: {error})") from error


def json_digest(content: Any) -> str:
    """SHA-256 of what JSON makes of a value, whatever the order of its keys."""
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
                line = "" if event.start_mark is None else f", in line {event.start_mark.line + 1}"
                raise ValueError(f"nested more than {DEEPEST} deep{line}")
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
