"""Results written part by part, so that a run that was killed goes on where it stood."""

from __future__ import annotations

import json
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
from wlkernelnn.utils.files import LOCK, alone_in, atomic_path, csv_text, write_text

MANIFEST = "_manifest.json"
FORMAT = "wlkernelnn.predictions/1"


class Counts(NamedTuple):
    """Rows that were read, of these rejected, and rows that were written."""

    read: int
    rejected: int
    written: int


class Parts:
    """A folder of finished parts, in order, and a manifest that says of what they are parts.

    A part counts once the manifest has it, which is written last. Of a text table, only the first part (and
    the first with rejected rows) has a header: parts end to end are the whole.

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
        self.done: list[Counts] = []
        self.cleared = False
        self._manifest = folder / MANIFEST
        origin_there: dict[str, Any] | None = None
        if self._manifest.is_file():
            try:
                known = json.loads(self._manifest.read_text(encoding="utf-8"))
                self.done = [Counts(*counts) for counts in known["parts"]]
                origin_there = dict(known["origin"])
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(
                    f"{self._manifest}: not a manifest of {FORMAT} ({error}); delete it"
                ) from error
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
        with alone_in(folder):
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

    def _check_folder(self) -> None:
        """Refuse a folder with anything but parts, and what a killed run leaves of the next one."""
        if self.folder.is_file():
            raise NotADirectoryError(f"{self.folder} is a file, expected a folder")
        numbers = range(len(self.done) + 1)
        ours = {
            MANIFEST,
            LOCK,
            *(path(number).name for number in numbers for path in (self._rows, self._rejects)),
        }
        unfinished = tuple(f".{name}." for name in ours)
        others = sorted(
            path.name
            for path in (self.folder.iterdir() if self.folder.is_dir() else ())
            if path.name not in ours and not path.name.startswith(unfinished)
        )
        if others:
            shown = ", ".join(others[:3]) + (f" and {len(others) - 3} more" if len(others) > 3 else "")
            raise FileExistsError(
                f"{self.folder} holds {shown}, which this run has not written: choose another folder"
            )

    @property
    def counts(self) -> Counts:
        """Of all finished parts together."""
        return Counts(*map(sum, zip(Counts(0, 0, 0), *self.done, strict=True)))

    def add(self, table: pa.Table, rejects: Sequence[Reject], counts: Counts) -> None:
        """Write the next part."""
        number = len(self.done)
        write_table(self._rows(number), table, header=number == 0)
        if rejects:
            first = not any(part.rejected for part in self.done)
            write_rejects(self._rejects(number), rejects, first, self.reject_column)
        self.done.append(counts)
        content = {"format": FORMAT, "origin": self.origin, "parts": self.done}
        write_text(self._manifest, json.dumps(content) + "\n")

    def join(self, path: Path) -> None:
        """Write the rows of all parts into one file, in one step."""
        with atomic_path(path) as temporary:
            if self.suffix == ".csv":
                _join_text(temporary, map(self._rows, range(len(self.done))))
            else:
                with pq.ParquetWriter(temporary, pq.read_schema(self._rows(0))) as writer:
                    for number in range(len(self.done)):
                        writer.write_table(pq.read_table(self._rows(number)))

    def join_rejects(self, path: Path) -> None:
        """Write the rejected rows of all parts into one file, in one step."""
        having = [number for number, counts in enumerate(self.done) if counts.rejected]
        if not having:
            write_rejects(path, [], column=self.reject_column)
            return
        with atomic_path(path) as temporary:
            _join_text(temporary, map(self._rejects, having))

    def clear(self) -> None:
        """Remove the folder."""
        self.cleared = True  # from here on the folder may be another's
        shutil.rmtree(self.folder, ignore_errors=True)

    def _rows(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}{self.suffix}"

    def _rejects(self, number: int) -> Path:
        return self.folder / f"_rejects-{number:06d}.csv"


def _join_text(path: Path, parts: Iterable[Path]) -> None:
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, out, 2**20)


def write_table(path: Path, table: pa.Table, header: bool = True) -> None:
    """Write a ``.csv`` file, nothing where a value is missing, or a ``.parquet`` file, in one step."""
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            pq.write_table(table, temporary)
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
