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

logger = logging.getLogger("wlkernelnn")


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


@contextmanager
def opened_zip(path: Path, url: str = "") -> Iterator[zipfile.ZipFile]:
    """A zip file for reading, just fetched from ``url`` or found; a damaged one is a ``ValueError``."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        hint = "" if url else "; delete it to fetch it again"
        raise ValueError(f"{url or path}: not a whole zip file ({error}){hint}") from error


def read_text(path: str | os.PathLike[str], encoding: str = "utf-8") -> str:
    """The text of a file (see :func:`opened`), without a byte order mark; its line ends stay as they are.

    Raises:
        ValueError: Unknown encoding, or bytes that are not in the encoding: names line and byte.
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


def warn_unlike_published(difference: str) -> None:
    """Log how data differ from the published ones."""
    logger.warning(f"{difference}; results may not compare with published ones")


def cache_folder() -> Path | None:
    """``$WLKERNELNN_CACHE``, else ``$XDG_CACHE_HOME/wlkernelnn``, else ``~/.cache/wlkernelnn``.

    ``None`` if ``$WLKERNELNN_CACHE`` is set to nothing, or the user has no home: there is no cache then.
    """
    own = os.environ.get("WLKERNELNN_CACHE")
    if own is not None:
        return Path(own) if own else None
    if parent := os.environ.get("XDG_CACHE_HOME"):
        return Path(parent, "wlkernelnn")
    try:
        return Path.home() / ".cache" / "wlkernelnn"
    except RuntimeError:  # neither $HOME nor an entry of the user
        return None


def data_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """The folders of :func:`find_file`, and the last one takes what is downloaded.

    Raises:
        FileNotFoundError: ``root`` or ``$WLKERNELNN_DATA`` is not a folder, or there is none and no cache.
    """
    named = os.environ.get("WLKERNELNN_DATA") if root is None else root
    cache = cache_folder()
    folders = [] if cache is None else [cache / "data"]
    if named:
        if not Path(named).is_dir():
            origin = "$WLKERNELNN_DATA" if root is None else "root"
            raise FileNotFoundError(f"{os.fspath(named)}: {origin} is not a folder")
        folders.insert(0, Path(named))
    if not folders:
        raise FileNotFoundError(
            "there is no folder for data sets: neither root nor $WLKERNELNN_DATA is given, and there is no "
            "cache ($WLKERNELNN_CACHE is empty, or the user has no home)"
        )
    return folders


def find_file(name: str, root: str | os.PathLike[str] | None = None) -> Path | None:
    """A file of a data set in ``root``, else ``$WLKERNELNN_DATA``, and then the cache; ``None`` if nowhere.

    Args:
        name: Path relative to a folder, such as ``"moleculenet/HIV.csv"``. The bare file name in the folder
            itself and the same with ``.gz`` at the end are taken as well.
        root: Folder with published data sets.

    Raises:
        FileNotFoundError: ``root`` or ``$WLKERNELNN_DATA`` is not a folder.
    """
    for folder in data_folders(root):
        for relative in (name, Path(name).name):
            for path in (folder / relative, folder / f"{relative}.gz"):
                if path.is_file():
                    return path
    return None


def require_file(
    name: str,
    root: str | os.PathLike[str] | None,
    source: str,
    url: str = "",
    sha256: Collection[str] = (),
    progress: bool = False,
) -> Path:
    """Like :func:`find_file`, for a file that must be there; with a ``url`` it is downloaded into the cache.

    Args:
        name: Path relative to a folder.
        root: Folder with published data sets.
        source: Where people get the file.
        url: Address to download it from.
        sha256: Checksums of its known versions; another one is logged.
        progress: Show a progress bar.

    Raises:
        FileNotFoundError: It is nowhere: says what to put where.
    """
    folders = data_folders(root)
    if (path := find_file(name, root)) is not None:
        if sha256 and (checksum := content_sha256(path)) not in sha256:
            warn_unlike_published(f"{path}: not a known version of this data set (its SHA-256 is {checksum})")
        return path
    problem, cause = f"{name} is not in {' nor in '.join(map(str, folders))}", None
    if url:
        try:
            return download(url, folders[-1] / Path(url).name, sha256, progress=progress)
        except (OSError, ValueError) as error:
            problem, source, cause = f"{problem}, and {error}", f"{url} ({source})", error
    raise FileNotFoundError(
        f"{problem}. Get it from {source} and put it, as it is or gzipped, at {folders[0] / name}"
    ) from cause


def content_sha256(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the content of a file, decompressed if its name ends in ``.gz``."""
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
    """Fetch a file to ``path``, where it appears only if it is whole and its checksum, if known, is right.

    Args:
        url: ``http``, ``https`` or ``file`` address.
        path: Where to put it.
        sha256: Accepted SHA-256 checksums (hexadecimal) of the content, as in :func:`content_sha256`;
            ``None`` where none is known, to check only that the file is whole.
        progress: Show a progress bar.
        timeout: Seconds to wait for an answer and between two pieces of it.

    Raises:
        OSError: The file could not be fetched, or was cut short.
        ValueError: It has another checksum.
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
        if (size := temporary.stat().st_size) < expected:
            raise OSError(f"{url}: came cut short, {size:,} of {expected:,} bytes")
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
    """A folder of data in the user's cache, from the folder ``inside`` of a publisher's zip file.

    No checksum is known: the file is checked to be a whole zip file with ``inside/marker`` in it. The data
    set ``name`` goes to ``folder``, relative to a folder of data sets.

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
            with opened_zip(archive, url) as files:
                files.extractall(scratch)
            content = Path(scratch, inside)
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
