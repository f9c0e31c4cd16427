"""Run a benchmark, and write its tables and figures."""

from __future__ import annotations

import ast
import importlib
import pkgutil

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import wlkernelnn.bench


def benchmarks() -> dict[str, str]:
    """Name and first line of every benchmark: of the modules of ``wlkernelnn.bench`` that have a ``main``."""
    found = {}
    for module in pkgutil.iter_modules(wlkernelnn.bench.__path__):
        spec = module.module_finder.find_spec(module.name, None)
        source = spec.loader.get_source(module.name) if spec and spec.loader else None  # type: ignore[attr-defined]
        tree = ast.parse(source or "")
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            found[module.name.replace("_", "-")] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(argv: list[str] | None = None) -> None:
    known = benchmarks()
    if not argv or argv[0] in ("-h", "--help"):
        table = Table("name", "what it does", title=escape("wlkernelnn benchmark NAME [options]"))
        for name, line in known.items():
            table.add_row(name, escape(line))
        Console().print(table)
        return
    name = argv[0]
    if name not in known:
        raise ValueError(f"unknown benchmark {name!r}; known are {', '.join(known)}")
    importlib.import_module(f"wlkernelnn.bench.{name.replace('-', '_')}").main(argv[1:])
