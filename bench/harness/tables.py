"""Tables of text: as Markdown, on the terminal, and in files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from wlkernelnn.utils.files import json_text, write_text

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


def write_page(stem: Path, title: str, body: str, known: Mapping[str, Any], **found: Any) -> None:
    """Write ``stem.md``, a title and what stands below, and ``stem.json``, what is known and was found."""
    write_text(stem.with_suffix(".md"), f"# {title}\n\n{body}")
    write_text(stem.with_suffix(".json"), json_text({**known, **found}, indent=1))
