"""What a file of results says of the run that it comes from, and names of what a run reads."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

# What is under every figure; runs with other versions of these are other runs.
PACKAGES = ("wlkernelnn", "torch", "torch-geometric", "pytorch-lightning", "numpy", "numba", "rdkit", "ogb")
# The packages of the source; an editable installation takes them from folders that lie side by side.
_SOURCES = ("wlkernelnn", "wlkernelnn.bench", "wlkernelnn.datasets", "wlkernelnn.sequence")


def about(
    name: str, argv: list[str] | None, quick: bool, packages: Iterable[str] = ()
) -> dict[str, str | int]:
    """What a table says of the run it comes from: command, mode, time, revision, processor and versions."""
    arguments = sys.argv[1:] if argv is None else argv
    return {
        "command": shlex.join(["wlkernelnn", "benchmark", name, *arguments]),
        "mode": "quick" if quick else "full",
        "time": datetime.now(UTC).isoformat(" ", "minutes"),
        "revision": revision(),
        "processor": f"{_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        **versions(*PACKAGES, *packages),
    }


def versions(*packages: str) -> dict[str, str]:
    """The versions of packages, by name."""
    return {package: _version(package) for package in packages}


def _version(package: str) -> str:
    if package == "torch":
        return str(torch.__version__)  # its build as well, which the package on PyPI does not name
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def revision() -> str:
    """The :func:`state` of the source that runs. Asked once: what is changed later is not what runs."""
    folders = {}
    for name in _SOURCES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations
        folders[name] = Path(spec.submodule_search_locations[0])
    return state(folders)


def state(folders: Mapping[str, Path]) -> str:
    """The name of a source, in the folder of each package: the last commit that changed a module.

    Where a module differs from it, a hash of all modules is added: ``"81be0d9+3fa2c1d0"``. Source that is
    not in git is ``"not in git, 3fa2c1d0"``. Commits of texts and tables change nothing.
    """
    places = list(map(str, folders.values()))

    def git(*arguments: str) -> str:
        command = ["git", "-C", places[0], *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    try:
        # An installed package may lie in the checkout of another project.
        git("ls-files", "--error-unmatch", "--", *places)
        changed = git("status", "--porcelain", "--untracked-files=all", "--", *places).splitlines()
        commit = git("log", "-1", "--format=%h", "--", *(f"{place}/*.py" for place in places)).strip()
    except (OSError, subprocess.CalledProcessError):
        return f"not in git, {_digest(folders)}"
    # Tables lie beside the source: those that a run writes do not change it.
    modified = any(line.rstrip('"').endswith(".py") for line in changed)
    return f"{commit}+{_digest(folders)}" if modified else commit


def _digest(folders: Mapping[str, Path]) -> str:
    modules = {
        f"{package.replace('.', '/')}/{path.relative_to(folder).as_posix()}": path
        for package, folder in folders.items()
        for path in folder.rglob("*.py")
    }
    digest = hashlib.sha256()
    for name in sorted(modules):
        content = hashlib.sha256(modules[name].read_bytes()).hexdigest()
        digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()[:8]


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def digest(*values: np.ndarray | Tensor) -> str:
    """Eight letters and digits that differ where a value, a shape or a type does."""
    content = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        content.update(f"{array.dtype.str}{array.shape}".encode())
        content.update(array.tobytes())
    return content.hexdigest()[:8]


def digest_of_strings(data: Any, *more: np.ndarray | Tensor) -> str:
    """The :func:`digest` of ``train``, ``valid`` and ``test``, packed strings, and of more values."""
    parts = (data.train, data.valid, data.test)
    return digest(*more, *(value for part in parts for value in (part.tokens, part.ptr, part.y)))
