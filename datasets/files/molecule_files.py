"""Files of molecules as tables: SDF, and SMILES with names. The first row has the names of the columns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from wlkernelnn.datasets.chemistry.writing import smiles_of_block

from .lines import lines_of
from .rejects import Unreadable

#: Columns of the molecule and of its name.
SMILES, NAME = "smiles", "name"

Row = tuple[int, tuple[object, ...]]


def smi_rows(path: Path) -> Iterator[Row]:
    """The rows of a file of SMILES: the line of each, and its cells.

    A line is a SMILES, then a blank or a tab and a name, which may hold blanks. A first line whose first word
    contains "smiles" names the columns: these are separated by tabs, if it has any, else by blanks. A line
    may end early; its last cells are blank then. Blank lines are not rows.
    """
    names: list[str] = []
    sign = None
    for number, line in enumerate(lines_of(path), 1):
        text = line.strip()
        if not names:
            has_header = "smiles" in text.partition("\t")[0].split(" ")[0].lower()
            sign = "\t" if has_header and "\t" in text else None
            names = text.split(sign) if has_header else [SMILES, NAME]
            yield 0, tuple(name.strip() for name in names)
            if has_header:
                continue
        if text:
            cells = [cell.strip() for cell in line.rstrip("\r\n").split(sign, len(names) - 1)]
            yield number, (*cells, *[""] * (len(names) - len(cells)))


class _Record(NamedTuple):
    """One molecule of an SDF: the line on which it ends, its MOL block, and its properties."""

    line: int
    block: str
    properties: dict[str, str]

    @property
    def name(self) -> str:
        return _decoded(self.block.partition("\n")[0].strip())

    @property
    def smiles(self) -> object:
        smiles, reason = smiles_of_block(self.block)
        return Unreadable(self.name, reason) if reason else smiles


def sdf_rows(path: Path) -> Iterator[Row]:
    """The rows of an SDF: the line on which each record ends, and its cells.

    The columns are ``smiles``, canonical and with stereochemistry, ``name``, the first line of a record, and
    all properties that any record has (where their names are taken, they begin with ``sdf_``). A
    record that RDKit does not read has an :class:`~wlkernelnn.datasets.files.rejects.Unreadable` in the place
    of the SMILES. The file is read twice: first for the names of its properties.
    """
    names = [*dict.fromkeys(name for record in _records(path) for name in record.properties)]
    columns = [SMILES, NAME]
    for name in names:
        column = name
        while column in columns or (column != name and column in names):
            column = f"sdf_{column}"
        columns.append(column)
    yield 0, tuple(columns)
    for record in _records(path):
        properties = [record.properties.get(name, "") for name in names]
        yield record.line, (record.smiles, record.name, *properties)


def _records(path: Path) -> Iterator[_Record]:
    lines: list[str] = []
    number = 0
    for number, line in enumerate(lines_of(path, "latin-1"), 1):
        if line.startswith("$$$$"):
            yield _record(number, lines)
            lines = []
        else:
            # A byte order mark, read as Latin-1.
            lines.append(line.rstrip("\r\n").removeprefix("ï»¿"))
    if any(map(str.strip, lines)):  # of the last record the end may be missing
        yield _record(number, lines)


def _record(number: int, lines: list[str]) -> _Record:
    """A record of its lines: a MOL block, then properties, each a header, lines and a blank line."""
    end = next((i for i, line in enumerate(lines) if line.startswith("M  END")), None)
    if end is None:
        end = next((i - 1 for i, line in enumerate(lines) if line.startswith(">")), len(lines) - 1)
    values: dict[str, list[str]] = {}
    value: list[str] | None = None
    for line in lines[end + 1 :]:
        if value is not None and line.strip():
            value.append(_decoded(line))
        elif line.startswith(">"):
            value = values.setdefault(_property(line), [])  # of a property that is there twice, all lines
        else:
            value = None
    properties = {name: "\n".join(of_name) for name, of_name in values.items()}
    return _Record(number, "\n".join(lines[: end + 1]) + "\n", properties)


def _property(header: str) -> str:
    """The name of a property in its header, such as ``>  <IC50>  (12)``."""
    begin, end = header.find("<"), header.rfind(">")
    return _decoded(header[begin + 1 : end] if 0 < begin < end else header[1:].strip())


def _decoded(text: str) -> str:
    """Text that was read as Latin-1 and may be UTF-8."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return text
