"""The wheel and what it declares: which modules it holds, and which packages it needs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Folder of the source → folder in the wheel.
FOLDERS = {
    "wlkernelnn": "wlkernelnn",
    "sequence": "wlkernelnn/sequence",
    "datasets": "wlkernelnn/datasets",
    "bench": "wlkernelnn/bench",
}
# What an extra brings, and the folders that may import it without another way around.
EXTRAS = {
    "numba": "wlkernelnn/ops",
    "torch-scatter": "wlkernelnn/ops",
    "triton": "wlkernelnn/ops",
    "mpmath": "",  # PyTorch's sympy brings it
    "ogb": "bench",
    "grakel": "bench",
    "threadpoolctl": "bench",  # scikit-learn brings it
    "chemprop": "bench",
    "optuna": "wlkernelnn",
    "openpyxl": "datasets/files",
    "distributed": "wlkernelnn/training/screening",
}


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        yield from (ROOT / folder).rglob("*.py")


def requirements(section: str, name: str) -> set[str]:
    """Names of the packages in a list of setup.cfg."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    return {re.split(r"[>\[;]", line)[0].lower() for line in setup[section][name].split("\n") if line}


def test_wheel_has_every_module(tmp_path: Path) -> None:
    """Built from the sdist: this also finds files that the sdist lacks."""
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    names = set(zipfile.ZipFile(next(tmp_path.glob("*.whl"))).namelist())
    for source in sources():
        folder, *rest = source.relative_to(ROOT).parts
        inside = "/".join([FOLDERS[folder], *rest])
        assert inside in names, f"{inside} is missing from the wheel (packages in setup.cfg)"
    for data in ("py.typed", "datasets/molecules/published.json", "datasets/text/documents.json"):
        assert f"wlkernelnn/{data}" in names
    tops = {name.split("/")[0] for name in names}
    assert all(top == "wlkernelnn" or top.endswith(".dist-info") for top in tops), tops


@pytest.fixture(scope="module")
def imported() -> dict[str, set[str]]:
    """Distribution of other authors → files that import it, lazily or not."""
    distributions, found = packages_distributions(), dict[str, set[str]]()
    for source in sources():
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"wlkernelnn"}:
                for distribution in distributions.get(top, [top]):
                    name = re.sub(r"[-_.]+", "-", distribution).lower()
                    found.setdefault(name, set()).add(source.relative_to(ROOT).as_posix())
    return found


def test_base_install_is_what_the_package_imports(imported: dict[str, set[str]]) -> None:
    base = requirements("options", "install_requires")
    assert base == set(imported) - set(EXTRAS)
    for name, folder in EXTRAS.items():
        outside = {file for file in imported.get(name, ()) if not file.startswith(folder)}
        assert not outside, f"{name} comes with an extra, and these import it: {outside}"


def test_every_extra_is_declared() -> None:
    users = ("fast", "scatter", "ogb", "theorems", "kernels", "chem", "hpopt", "excel", "cluster")
    declared = set().union(*(requirements("options.extras_require", extra) for extra in users))
    assert declared == set(EXTRAS) - {"triton"}  # it comes with PyTorch for GPUs


def test_ci_pins_what_is_declared() -> None:
    """Each direct dependency has one version that CI tests with, but chemprop, which wants an older rdkit."""
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    declared = requirements("options", "install_requires") | (set(EXTRAS) - {"chemprop"})
    assert declared <= pins, declared - pins
