"""Files that are written whole or not at all, and folders in which one process works at a time."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from filelock import FileLock, Timeout

# Stays in a folder that somebody was alone in.
LOCK = ".lock"
# How the names of unfinished files begin: a process that is killed leaves them.
UNFINISHED = ".wlkernelnn-"
_REMEDIES = {
    errno.ENOSPC: "free some space, or write to another disk",
    errno.EDQUOT: "free some space, or write to another disk",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f), or write less",
    errno.EMFILE: "close files, or raise the limit (ulimit -n)",
    errno.ENFILE: "close files, or raise the limit (ulimit -n)",
    errno.EROFS: "write to another disk",
}


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its name once the block ends without an error.

    The content is on the disk before that: after a kill or a loss of power, ``path`` holds all of the old or
    all of the new. A link stays one: the file that it leads to is written.

    Raises:
        OSError: The file cannot be written, for example on a full disk: names ``path`` and a remedy.
    """
    path = Path(os.path.realpath(path) if os.path.islink(path) else path)
    with _named(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{UNFINISHED}{uuid4().hex}{_ending(path.name)}")
        temporary.touch(exist_ok=False)
        mode = temporary.stat().st_mode  # what new files have here
    try:
        with _named(path):
            yield temporary
            with open(temporary, "rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(mode)  # safetensors makes files that only their owner reads
            os.replace(temporary, path)
        _sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _ending(name: str) -> str:
    """How temporary names of a file end; they may not be too long."""
    return f".{name[-50:]}"


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Errors of a file system say which file could not be written, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        what = os.strerror(error.errno)
        if remedy := _REMEDIES.get(error.errno):
            what += f" ({remedy})"
        raise OSError(error.errno, what, str(path)) from error


def _sync_folder(folder: Path) -> None:
    """Let a new name outlive a loss of power, where the system can."""
    with suppress(OSError):  # Windows opens no folders
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear_unfinished(folder: Path, of: str = "") -> None:
    """Remove what killed processes left unfinished in a folder, or only of the file ``of``.

    No other process may write there.
    """
    for path in folder.glob(f"{UNFINISHED}*{glob.escape(of and _ending(of))}"):
        path.unlink(missing_ok=True)


@dataclass
class Place:
    """A folder in which a process works alone.

    Attributes:
        folder: The folder.
        identity: Tells it from another of its name.
        kept: Whether it is to be there in the end.
    """

    folder: Path
    identity: tuple[int, int]
    kept: bool = True

    @classmethod
    def of(cls, folder: Path) -> Self:
        """The folder that is there now."""
        about = os.stat(folder)
        return cls(folder, (about.st_dev, about.st_ino))

    def check(self) -> None:
        """Raise a ``FileNotFoundError`` if it was deleted, or another took its name."""
        if not self.folder.is_dir() or Place.of(self.folder).identity != self.identity:
            raise FileNotFoundError(
                f"{self.folder}: was deleted or replaced during the work there, so results are missing; "
                "start again"
            )


@contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[Place]:
    """Work in a folder, which is made, that no other process works in at the time.

    Files that a killed process left unfinished there are removed.

    Raises:
        FileExistsError: One does.
        FileNotFoundError: In the end, the folder is not there any more.
        NotADirectoryError: ``folder`` is a file.
        OSError: Nothing can be written there, for example on a read-only disk: names it and a remedy.
    """
    folder = Path(folder)
    if folder.is_file():
        raise NotADirectoryError(f"{folder} is a file, expected a folder")
    lock = FileLock(folder / LOCK, timeout=0, is_singleton=True)  # one who is alone there may say so again
    try:
        with _named(folder):
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
    except Timeout:
        raise FileExistsError(
            f"{folder}: another process works there; wait for it, or choose another folder"
        ) from None
    try:
        if lock.lock_counter == 1:
            clear_unfinished(folder)
        place = Place.of(folder)
        yield place
        if place.kept:
            place.check()
    finally:
        lock.release()
