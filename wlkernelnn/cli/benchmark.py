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
#: The extra that installs a package which only some benchmarks need.
EXTRAS = {"chemprop": "chem", "grakel": "kernels", "mpmath": "theorems", "numba": "fast", "ogb": "ogb"}


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
    try:
        importlib.import_module(f"wlkernelnn.bench.{BENCHMARKS[name]}").main(argv[1:])
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        command = f"pip install 'wlkernelnn[{EXTRAS[package]}]'"
        raise ImportError(f"benchmark {name} needs {package}: {command}") from error
