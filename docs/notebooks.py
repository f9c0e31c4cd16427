"""Run the tutorials while the pages are built, in one kernel: its imports take longer than the cells."""

from __future__ import annotations

import atexit
import logging
import os
import tempfile
from functools import cache
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell
from sphinx.application import Sphinx

# What tqdm and rich say where a notebook has no widgets.
QUIET = "ignore:IProgress not found,ignore:install"


@cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Where notebooks write, each into a folder of its own."""
    return tempfile.TemporaryDirectory()


@cache
def kernel() -> KernelManager:
    """The one for all notebooks."""
    manager = KernelManager(kernel_name="python3", transport="ipc")
    manager.start_kernel(env={**os.environ, "PYTHONWARNINGS": QUIET})
    atexit.register(manager.shutdown_kernel, now=True)
    return manager


def executed(app: Sphinx, name: str, content: list[str]) -> None:
    """Put the outputs into a notebook that is read; a cell that fails ends the build."""
    if not name.startswith("tutorials/"):
        return
    notebook = nbformat.reads(content[0], 4)
    own = Path(folder().name) / name
    own.mkdir(parents=True)
    notebook.cells.insert(0, new_code_cell(f"%cd -q {own}\n%reset -f"))
    NotebookClient(notebook, km=kernel(), timeout=300).execute(reset_kc=False)
    del notebook.cells[0]
    content[0] = nbformat.writes(notebook)


def setup(app: Sphinx) -> dict[str, bool]:
    logging.getLogger("traitlets").setLevel(logging.ERROR)  # nbclient tells of each start and end
    app.connect("source-read", executed)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
