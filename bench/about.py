"""What a file of results says of the run that it comes from."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch


def about(
    name: str, argv: list[str] | None, quick: bool, packages: Iterable[str] = ()
) -> dict[str, str | int]:
    """What a table says of the run it comes from: command, mode, time, revision and :func:`environment`."""
    arguments = sys.argv[1:] if argv is None else argv
    return {
        "command": shlex.join(["wlkernelnn", "benchmark", name, *arguments]),
        "mode": "quick" if quick else "full",
        "time": datetime.now(UTC).isoformat(" ", "minutes"),
        "revision": revision(),
        **environment(*packages),
    }


def environment(*more: str) -> dict[str, str]:
    """Processor, Python, and the versions of what is measured, ``more`` packages included."""
    packages = ("wlkernelnn", "torch", "torch-geometric", "numpy", "rdkit", "ogb", *more)
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        **{package: _version(package) for package in packages},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


@cache
def revision() -> str:
    """Git's name of the source that runs, with a ``+`` if it was changed since; or ``"not in git"``.

    Asked once: what is committed later is not what runs.
    """

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    try:
        # An installed package may lie in the checkout of another project.
        git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "not in git"


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
