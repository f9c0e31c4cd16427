"""The lines of text files that hold tables or molecules, with errors that name the place."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .download import opened, read_text

# First bytes of files that carry another name than their content.
_MAGIC = {
    b"PAR1": "a Parquet file: name it .parquet",
    b"\x1f\x8b": "gzip-compressed: add .gz to its name",
    b"PK\x03\x04": "a zip archive or an Excel workbook: name a workbook .xlsx",
}
# Characters of a line: a longer one is not read to its end.
_LONGEST = 2**26


def lines_of(path: Path, encoding: str = "") -> Iterator[str]:
    """Lines with their ends, without the blank ones at the end of the file.

    Args:
        path: The file; one whose name ends in ``.gz`` is decompressed.
        encoding: Default: UTF-8, or UTF-16 if the file begins so.

    Raises:
        ValueError: The file is empty, holds no text or a line without end, or has another encoding.
    """
    blank: list[str] = []
    empty = True
    with opened(path) as file:
        head = file.peek(1024)  # type: ignore[attr-defined]
        for magic, what in _MAGIC.items():
            if head.startswith(magic):
                twice = path.suffix.lower() == ".gz" and head.startswith(b"\x1f\x8b")
                what = "compressed twice: decompress it once" if twice else what
                raise ValueError(f"{path}: not a text table but {what}")
        if not encoding:
            # As spreadsheets save "Unicode text", with a byte order mark.
            encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        if b"\0" in head and encoding != "utf-16":
            raise ValueError(f"{path}: not a text table: binary data")
        try:
            with io.TextIOWrapper(file, encoding, newline="") as text:
                for number, line in enumerate(iter(partial(text.readline, _LONGEST), ""), 1):
                    if len(line) == _LONGEST and line[-1] not in "\r\n":
                        raise ValueError(f"{path}: line {number} is longer than {_LONGEST:,} characters")
                    if "\0" in line:
                        raise ValueError(f"{path}: line {number}: not a text table: binary data")
                    blank.append(line)
                    if line.strip("\r\n"):
                        empty = empty and not line.strip()
                        yield from blank
                        blank.clear()
        except UnicodeDecodeError:
            read_text(path, encoding.removesuffix("-sig"))  # names the place
            raise
    if empty:
        raise ValueError(f"{path}: the file is empty")
