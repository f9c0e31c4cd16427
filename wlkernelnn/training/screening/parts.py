"""Results written part by part, so that a run that was killed goes on where it stood."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from wlkernelnn.datasets import Reject, write_rejects
from wlkernelnn.utils.files import (
    LOCK,
    UNFINISHED,
    alone_in,
    atomic_path,
    clear_unfinished,
    csv_text,
    read_sealed,
    write_sealed,
)

MANIFEST = "_manifest.json"
FORMAT = "wlkernelnn.predictions/2"
# So many parts are written into the manifest one by one.
OFTEN = 1000

logger = logging.getLogger("wlkernelnn")


class Counts(NamedTuple):
    """Rows that were read, of these rejected, and rows that were written."""

    read: int
    rejected: int
    written: int


class Part(NamedTuple):
    """What the manifest says of a part.

    Attributes:
        counts: Its rows.
        rows, rejects: Digest and size of the files; nothing of a part without rejected rows.
    """

    counts: Counts
    rows: tuple[str, int]
    rejects: tuple[str, int] | None


class Parts:
    """A folder of finished parts, in order, and a manifest that says of what they are parts.

    A part counts once the manifest has it, which is written last and holds digests of its files: a part that
    was damaged since, and those after it, are written again. The manifest is written after each of the first
    thousand parts, then less often, as it grows with them: a kill loses 0.1 % at most. Of a text table, only
    the first part (and the first with rejected rows) has a header: parts end to end are the whole.

    Args:
        folder: Where they are kept.
        suffix: ``".csv"`` or ``".parquet"``.
        origin: Everything that the content depends on, as JSON has it.
        resume: Go on with the parts that are there.
        reject_column: What files of rejected rows call what stood there.

    Raises:
        FileExistsError: There are parts, and ``resume`` is off, or other files are in the folder.
        NotADirectoryError: ``folder`` is a file.
        ValueError: The parts there are of another origin.
    """

    def __init__(
        self,
        folder: Path,
        suffix: str,
        origin: Mapping[str, Any],
        resume: bool,
        reject_column: str = "smiles",
    ) -> None:
        self.reject_column = reject_column
        self.folder, self.suffix, self.origin = folder, suffix, dict(origin)
        self.done: list[Part] = []
        self.cleared = False
        self._noted = 0
        self._manifest = folder / MANIFEST
        self._joined: tuple[str, int] | None = None
        origin_there = self._read() if self._manifest.is_file() else None
        self._check_folder()
        if origin_there is None:
            return
        if not resume:
            raise FileExistsError(
                f"{folder} holds {len(self.done)} finished parts of an earlier run: resume it, or delete them"
            )
        for key in (*self.origin, *origin_there):
            if self.origin.get(key) != origin_there.get(key):
                raise ValueError(
                    f"{folder}: the run to resume had {key} {origin_there.get(key)!r}, "
                    f"now it is {self.origin.get(key)!r}; delete the folder to start again"
                )
        if self._joined is None:
            self._drop_damaged()

    def _read(self) -> dict[str, Any]:
        """Take the parts of the manifest; what they are of."""
        try:
            known = read_sealed(self._manifest)
            if known["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {known['format']!r}")
            for counts, rows, rejects in known["parts"]:
                self.done.append(Part(Counts(*counts), tuple(rows), rejects and tuple(rejects)))
            self._noted = len(self.done)
            self._joined = known["joined"] and tuple(known["joined"])
            return dict(known["origin"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self._manifest}: not a manifest of {FORMAT} ({error}); delete it") from error

    def _write(self) -> None:
        content = {"format": FORMAT, "origin": self.origin, "parts": self.done, "joined": self._joined}
        write_sealed(self._manifest, content, indent=None)  # of as many parts as there are
        self._noted = len(self.done)

    def _drop_damaged(self) -> None:
        """Forget the first part whose files are not those that were written, and all after it."""
        for number, part in enumerate(self.done):
            if wrong := self._wrong(number, part):
                logger.warning(f"{wrong}: missing or damaged; this part, and all after it, are written again")
                for later in range(number, len(self.done)):
                    for path in (self._rows(later), self._rejects(later)):
                        path.unlink(missing_ok=True)
                del self.done[number:]
                self._write()
                return

    def _wrong(self, number: int, part: Part) -> Path | None:
        """The file of a part that is not as it was written."""
        for path, written in ((self._rows(number), part.rows), (self._rejects(number), part.rejects)):
            if written is not None and (not path.is_file() or digest_and_size(path) != written):
                return path
        return None

    def check(self) -> None:
        """Raise an error if a file of a finished part has gone, or has another size."""
        for number, part in enumerate(self.done):
            for path, written in ((self._rows(number), part.rows), (self._rejects(number), part.rejects)):
                if written is not None and (not path.is_file() or path.stat().st_size != written[1]):
                    raise FileNotFoundError(f"{path}: {_LOST}")

    @classmethod
    @contextmanager
    def alone(
        cls,
        folder: Path,
        suffix: str,
        origin: Mapping[str, Any],
        resume: bool,
        reject_column: str = "smiles",
    ) -> Iterator[Self]:
        """Parts that no other process writes at the time; nothing is left where there are none.

        Raises:
            FileExistsError: Another process does, or see the class.
        """
        new, lock = not folder.exists(), folder / LOCK
        locked_before = lock.exists()
        with alone_in(folder) as place:
            try:
                parts = cls(folder, suffix, origin, resume, reject_column)
            except (OSError, ValueError):
                if not locked_before:
                    lock.unlink()  # the folder is somebody else's
                raise
            try:
                yield parts
            finally:
                if new and not parts.done and not parts.cleared:
                    parts.clear()
                if parts._noted < len(parts.done) and folder.is_dir() and not parts.cleared:
                    parts._write()
                place.kept = not parts.cleared

    def _check_folder(self) -> None:
        """Refuse a folder with anything but parts, also those that a killed run has not noted."""
        if self.folder.is_file():
            raise NotADirectoryError(f"{self.folder} is a file, expected a folder")
        # The manifest may lack so many, and the next may have been killed.
        numbers = range(len(self.done) + 2 * (len(self.done) // OFTEN) + 1)
        files = (path(number).name for number in numbers for path in (self._rows, self._rejects))
        ours = {MANIFEST, LOCK, *files}
        others = sorted(
            path.name
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if path.name not in ours and not path.name.startswith(UNFINISHED)
        )
        if others:
            shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
            raise FileExistsError(
                f"{self.folder} holds {shown}, which this run has not written: choose another folder"
            )

    @property
    def counts(self) -> Counts:
        """Of all finished parts together."""
        return Counts(*map(sum, zip(Counts(0, 0, 0), *(part.counts for part in self.done), strict=True)))

    def add(self, table: pa.Table, rejects: Sequence[Reject], counts: Counts) -> None:
        """Write the next part."""
        number = len(self.done)
        write_table(self._rows(number), table, header=number == 0)
        if rejects:
            first = not any(part.rejects for part in self.done)
            write_rejects(self._rejects(number), rejects, first, self.reject_column)
        rejected = digest_and_size(self._rejects(number)) if rejects else None
        self.done.append(Part(counts, digest_and_size(self._rows(number)), rejected))
        if len(self.done) - self._noted > number // OFTEN:
            self._write()

    def is_joined(self, path: Path) -> bool:
        """Whether an earlier run wrote all rows into this file, and was killed while it tidied up."""
        return self._joined is not None and path.is_file() and digest_and_size(path) == self._joined

    def join(self, path: Path) -> None:
        """Write the rows of all parts into one file, in one step.

        Raises:
            OSError: A part is not as it was written, or the file cannot be.
        """
        clear_unfinished(path.parent, of=path.name)
        with atomic_path(path) as temporary:
            if self.suffix == ".csv":
                _join_text(temporary, [(self._rows(i), part.rows) for i, part in enumerate(self.done)])
            else:
                with pq.ParquetWriter(
                    temporary, pq.read_schema(self._rows(0)), write_page_checksum=True
                ) as writer:
                    for number, part in enumerate(self.done):
                        if self._wrong(number, part):
                            raise FileNotFoundError(f"{self._rows(number)}: {_LOST}")
                        writer.write_table(pq.read_table(self._rows(number)))
        self._joined = digest_and_size(path)
        self._write()

    def join_rejects(self, path: Path) -> None:
        """Write the rejected rows of all parts into one file, in one step."""
        clear_unfinished(path.parent, of=path.name)
        having = [(self._rejects(i), part.rejects) for i, part in enumerate(self.done) if part.rejects]
        if not having:
            write_rejects(path, [], column=self.reject_column)
            return
        with atomic_path(path) as temporary:
            _join_text(temporary, having)

    def clear(self) -> None:
        """Remove the folder, the manifest last: a run that is killed meanwhile can be resumed."""
        self.cleared = True  # from here on the folder may be another's
        for number in range(len(self.done) + 1):
            for path in (self._rows(number), self._rejects(number)):
                path.unlink(missing_ok=True)
        self._manifest.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _rows(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}{self.suffix}"

    def _rejects(self, number: int) -> Path:
        return self.folder / f"_rejects-{number:06d}.csv"


_LOST = "missing or not as it was written; resume the run, which writes it again"


def digest_and_size(path: Path) -> tuple[str, int]:
    """Half of the SHA-256 of a file, and its size in bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32], file.tell()


def _join_text(path: Path, parts: Iterable[tuple[Path, tuple[str, int]]]) -> None:
    """Write files end to end, if they are what they are said to be."""
    with open(path, "wb") as out:
        for part, written in parts:
            digest, size = hashlib.sha256(), 0
            with open(part, "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
                    size += out.write(block)
            if (digest.hexdigest()[:32], size) != written:
                raise FileNotFoundError(f"{part}: {_LOST}")


def write_table(path: Path, table: pa.Table, header: bool = True) -> None:
    """Write a ``.csv`` file, nothing where a value is missing, or a ``.parquet`` file, in one step."""
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pq.write_table(table, temporary, write_page_checksum=True)
            return
        columns = []
        for column in table.columns:
            if pa.types.is_floating(column.type):
                # As few digits as tell the number from its neighbours, also of 32 bits.
                column = pc.cast(pc.if_else(pc.is_nan(column), None, column), pa.string())
            columns.append(column.to_pylist())
        names = [table.column_names] if header else []
        text = csv_text(chain(names, zip(*columns, strict=True)))
        temporary.write_text(text, encoding="utf-8", newline="")
