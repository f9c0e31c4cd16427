"""Reading files and finding those of published data sets, which are downloaded where they are nowhere."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import logging
import os
import shutil
import tempfile
import urllib.request
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from rich.progress import wrap_file

from wlkernelnn.utils.files import atomic_path


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file for reading its bytes, decompressed if its name ends in ``.gz``.

    Raises:
        FileNotFoundError: The file does not exist.
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
        FileNotFoundError: The file does not exist.
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


logger = logging.getLogger("wlkernelnn")


def cache_folder() -> Path:
    """``$WLKERNELNN_CACHE``, else ``$XDG_CACHE_HOME/wlkernelnn``, else ``~/.cache/wlkernelnn``."""
    own = os.environ.get("WLKERNELNN_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "wlkernelnn")


def data_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Where data sets are looked for: ``root``, else ``$WLKERNELNN_DATA``, and then the cache.

    Raises:
        FileNotFoundError: ``root`` or ``$WLKERNELNN_DATA`` is not a folder.
    """
    named = os.environ.get("WLKERNELNN_DATA") if root is None else root
    folders = [cache_folder() / "data"]
    if named:
        if not Path(named).is_dir():
            origin = "$WLKERNELNN_DATA" if root is None else "root"
            raise FileNotFoundError(f"{os.fspath(named)}: {origin} is not a folder")
        folders.insert(0, Path(named))
    return folders


def find_file(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """A file of a data set in the folders of :func:`data_folders`, or ``None``.

    Args:
        name: Path relative to a folder, such as ``"moleculenet/HIV.csv"``. The bare file name in the folder
            itself and the same with ``.gz`` at the end are taken as well.
        root: See :func:`data_folders`.
    """
    for folder in data_folders(root):
        for relative in (name, Path(name).name):
            for path in (folder / relative, folder / f"{relative}.gz"):
                if path.is_file():
                    return path
    return None


def require_file(name: str, root: str | os.PathLike[str] | None, source: str) -> Path:
    """Like :func:`find_file`, for a file that is not downloaded.

    Args:
        name: Path relative to a folder.
        root: See :func:`data_folders`.
        source: Where people get the file.

    Raises:
        FileNotFoundError: It is nowhere: says what to put where.
    """
    path = find_file(name, root)
    if path is None:
        folders = data_folders(root)
        raise FileNotFoundError(
            f"{name} is not in {' nor in '.join(map(str, folders))}. Get it from {source} and put it, as it "
            f"is or gzipped, at {folders[0] / name}"
        )
    return path


def content_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of what is in a file, after decompression if its name ends in ``.gz``.

    Raises:
        ValueError: A ``.gz`` file that is damaged.
    """
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def download(
    url: str,
    path: str | os.PathLike[str],
    sha256: Collection[str] | None,
    *,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Fetch a file; it takes its place only when it is whole and its checksum, if one is known, is right.

    Args:
        url: ``http``, ``https`` or ``file`` address.
        path: Where to put it.
        sha256: Accepted SHA-256 checksums (hexadecimal) of the content, as in :func:`content_sha256`;
            ``None`` where none is known, to check only that the file is whole.
        progress: Show a progress bar.
        timeout: Seconds to wait for an answer and between two pieces of it.

    Returns:
        ``path``.

    Raises:
        OSError: The file could not be fetched, or came cut short.
        ValueError: It came with another checksum.
    """
    path = Path(path)
    logger.info(f"downloading {url}")
    with atomic_path(path) as temporary:
        try:
            with urllib.request.urlopen(url, timeout=timeout) as response, open(temporary, "wb") as file:
                expected = int(response.headers.get("Content-Length") or 0)
                with wrap_file(response, expected, description=path.name, disable=not progress) as shown:
                    shutil.copyfileobj(shown, file)
        except (OSError, http.client.HTTPException) as error:
            raise OSError(f"{url}: could not be downloaded ({error})") from error
        came = temporary.stat().st_size
        if came < expected:
            raise OSError(f"{url}: came cut short, {came:,} of {expected:,} bytes")
        if sha256 is not None and (checksum := content_sha256(temporary)) not in sha256:
            raise ValueError(
                f"{url}: the content has SHA-256 {checksum}, expected {' or '.join(sorted(sha256))}; not kept"
            )
    return path


def fetch_folder(
    name: str,
    url: str,
    folder: str,
    inside: str,
    marker: str,
    root: str | os.PathLike[str] | None,
    progress: bool = False,
) -> Path:
    """A folder of data in the user's cache, from a publisher's zip file.

    No checksum is known: the file is checked to be a whole zip file with ``inside/marker`` in it.

    Args:
        name: Name of the data set.
        url: Address of the zip file.
        folder: Where the data lie in a folder of data sets.
        inside: The folder in the zip file.
        marker: A file that must be there.
        root: See :func:`data_folders`.
        progress: Show a progress bar.

    Raises:
        FileNotFoundError: They could not be fetched: says what to put where.
    """
    folders = data_folders(root)
    target = folders[-1] / folder
    try:
        if target.is_dir() and any(target.iterdir()):
            raise ValueError(f"{target} has no {marker}: remove the folder and have all fetched")
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
            archive = download(url, Path(scratch, "archive.zip"), None, progress=progress)
            content = Path(scratch, "content", inside)
            try:
                with zipfile.ZipFile(archive) as files:
                    files.extractall(Path(scratch, "content"))
            except (zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise ValueError(f"{url}: not a whole zip file ({error})") from error
            if not (content / marker).is_file():
                raise ValueError(f"{url}: there is no {inside}/{marker} in it")
            try:
                content.rename(target)  # in one step: a reader never sees half of it
            except OSError:
                if not (target / marker).is_file():  # else another process was faster
                    raise
    except (OSError, ValueError) as error:
        raise FileNotFoundError(
            f"{name}: there is no {folder}/{marker} in {' nor in '.join(map(str, folders))}, and {error}. "
            f"Put the files of the data set into {folders[0] / folder}"
        ) from error
    logger.warning(f"{target}: fetched from {url}; no checksum is known to compare it with")
    return target
