from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from wlkernelnn.datasets.files.text import read_text

TEXT = "née\r\n\u0085 8\u00a01/2\n"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.TXT.GZ"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_as_it_was_written(tmp_path: Path, name: str, encoding: str) -> None:
    content = TEXT.encode(encoding)
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    # A byte order mark goes, however the encoding is called.
    assert read_text(path, "utf-8" if "8" in encoding else encoding) == TEXT


def test_wrong_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("ab\ncd\n\ne né\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"a\.txt: line 4: byte 0xe9 at 10 is not utf-8 \(invalid cont"):
        read_text(path)
    assert read_text(path, "latin-1").endswith("né\n")
    with pytest.raises(ValueError, match=r"line 4: byte 0xe9 at 10 is not ascii"):
        read_text(path, "ascii")
    path.write_bytes("ab".encode("utf-16"))
    with pytest.raises(ValueError, match=r"line 1: byte 0xff at 0 is not utf-8"):
        read_text(path)
    with pytest.raises(ValueError, match="unknown encoding 'utf-9'"):
        read_text(path, "utf-9")


def test_files_that_are_not_there_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.txt: no such file"):
        read_text(tmp_path / "a.txt")
    path = tmp_path / "a.txt.gz"
    for content in (gzip.compress(b"x" * 1000)[:-9], b"not compressed"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a\.txt\.gz: not a whole gzip file"):
            read_text(path)
