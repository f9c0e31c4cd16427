"""Run a benchmark, and write its tables and figures."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import wlkernelnn.bench
from wlkernelnn.bench import BENCHMARKS

ROOT = Path(wlkernelnn.bench.__file__).parent


def first_line(module: str) -> str:
    """First line of a benchmark's docstring, read without importing the module."""
    source = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def main(argv: list[str] | None = None) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        table = Table("name", "what it does", title=escape("wlkernelnn benchmark NAME [options]"))
        for name, module in BENCHMARKS.items():
            table.add_row(name, escape(first_line(module)))
        Console().print(table)
        return
    name = argv[0]
    if name not in BENCHMARKS:
        raise ValueError(f"unknown benchmark {name!r}; known are {', '.join(BENCHMARKS)}")
    importlib.import_module(f"wlkernelnn.bench.{BENCHMARKS[name]}").main(argv[1:])
