"""Reading text files, gzipped or not, with errors that name the place."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file for reading its bytes, decompressed if its name ends in ``.gz``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A ``.gz`` file that is damaged, when that place is read.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as file:
            yield cast(IO[bytes], file)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: not a whole gzip file ({error})") from error


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of a file, without a byte order mark; its line ends stay as they are.

    Args:
        path: The file; one whose name ends in ``.gz`` is decompressed.
        encoding: Its encoding.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: Unknown encoding, a damaged ``.gz`` file, or bytes that are not in the encoding: names
            line and byte.
    """
    with opened(path) as file:
        content = file.read()
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError as error:
        raise ValueError(f"unknown encoding {encoding!r}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path}: line {line}: byte 0x{content[error.start]:02x} at {error.start:,} is not {encoding} "
            f"({error.reason}): is that the encoding of the file?"
        ) from error
