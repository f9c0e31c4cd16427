"""Tables of text: as Markdown, on the terminal, and in files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from wlkernelnn.utils.files import json_text, read_json, write_text

# Cells, the header first.
Rows = Sequence[Sequence[str]]


def markdown(rows: Rows, left: int = 1) -> str:
    """The table as Markdown, with a line break behind it; all columns but the ``left`` first flush right."""
    header, *body = rows
    rule = ["---"] * left + ["---:"] * (len(header) - left)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *body))


def items(known: Mapping[str, Any]) -> str:
    """What is known of a run as a list in Markdown."""
    return "".join(f"* {name}: {value}\n" for name, value in known.items())


def printed(rows: Rows, title: str, left: int = 1) -> Table:
    """The table for a terminal, aligned as in :func:`markdown`."""
    header, *body = rows
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for i, name in enumerate(header):
        table.add_column(escape(name), justify="left" if i < left else "right")
    for cells in body:
        table.add_row(*map(escape, cells))
    return table


def full_table(path: Path) -> dict[str, Any]:
    """What a JSON file holds, if it is there and of a full table; else nothing."""
    there: dict[str, Any] = read_json(path) if path.is_file() else {}
    return there if there.get("mode") == "full" else {}


def check_rows(stem: Path, known: Mapping[str, Any], entry: str, made: Collection[tuple[Any, ...]]) -> None:
    """Raise a ValueError if a full table has rows that a call does not make, which would be lost.

    Args:
        stem: Of the files.
        known: What is known of the call; tables of several data sets have different rows.
        entry: Name of the rows in the JSON file; the first two values of a row are its name.
        made: The names of the rows that the call makes.
    """
    there = full_table(path := stem.with_suffix(".json"))
    same = there.get("dataset") == known.get("dataset")
    names = [tuple(row.values())[:2] for row in there.get(entry, ())]
    if lost := [", ".join(map(str, name)) for name in names if not same or name not in made]:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise ValueError(
            f"{path}: holds rows that this call does not make: {'; '.join(lost[:3])}{more}: name another "
            "--output-dir, or move the table away"
        )


def write_page(stem: Path, title: str, body: str, known: Mapping[str, Any], **found: Any) -> None:
    """Write ``stem.md``, a title and what stands below, and ``stem.json``, what is known and was found.

    Raises:
        ValueError: A quick table would replace a full one.
    """
    path = stem.with_suffix(".json")
    if known["mode"] == "quick" and full_table(path):
        raise ValueError(f"{path}: holds a full table, which a quick one would replace: name another folder")
    write_text(stem.with_suffix(".md"), f"# {title}\n\n{body}")
    write_text(path, json_text({**known, **found}, indent=1))
