"""Every public name is documented on one page of docs/api; names that others rely on are importable."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = (
    "wlkernelnn",
    "wlkernelnn.conv",
    "wlkernelnn.models",
    "wlkernelnn.estimators",
    "wlkernelnn.training",
    "wlkernelnn.kernels",
    "wlkernelnn.datasets",
    "wlkernelnn.sequence",
    "wlkernelnn.sequence.rrnn",
    "wlkernelnn.testing",
    "wlkernelnn.ops.graph",
    "wlkernelnn.ops.string",
    "wlkernelnn.ops.colours",
)
PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
#: Public in two packages, documented in the one that users import from.
ALSO = {"wlkernelnn.conv": "wlkernelnn", "wlkernelnn.estimators": "wlkernelnn"}
ALSO_NAMES = {"wlkernelnn.sequence.rrnn.RRNN", "wlkernelnn.sequence.rrnn.RRNNGRU"}

#: Import paths and names that other code already uses.
CONTRACT = {
    "wlkernelnn": "WLKernelConv RandomWalkKernelConv DeepKernelConv MoleculeRegressor MoleculeClassifier",
    "wlkernelnn.models": "GraphKernelNetwork",
    "wlkernelnn.kernels": "RandomWalkKernel WLSubtreeKernel WLKernel StringKernel "
    "DeepGraphKernel DeepStringKernel",
    "wlkernelnn.sequence": "path_graph StringKernelConv StringKernelNetwork RKM SyncFilters "
    "RecurrentKernelMachine RRNN RRNNGRU",
    "wlkernelnn.datasets": "load_molecules load_ogb PackedGraphs PackedLoader",
    "wlkernelnn.testing": "assert_matches_kernel",
}


def documented() -> list[str]:
    """Full names in the order of the pages, as their directives give them."""
    directive = re.compile(r"^\.\. (?:auto\w+|py:data):: (\S+)", re.MULTILINE)
    return [name for page in PAGES for name in directive.findall(page.read_text("utf-8"))]


def public(package: str) -> set[str]:
    return {f"{package}.{name}" for name in import_module(package).__all__ if not name.startswith("__")}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_documented(package: str) -> None:
    home = ALSO.get(package, package)
    missing = {name.replace(package, home, 1) for name in public(package)} - set(documented()) - ALSO_NAMES
    assert not missing, f"add them to a page of docs/api, or take them out of {package}.__all__"


def test_documented_names_are_public() -> None:
    gone = set(documented()) - set().union(*map(public, PACKAGES))
    assert not gone, "take them from docs/api"


def test_names_are_documented_once() -> None:
    names = documented()
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(("package", "names"), CONTRACT.items())
def test_contract(package: str, names: str) -> None:
    module = import_module(package)
    assert not [name for name in names.split() if name not in module.__all__ or not hasattr(module, name)]
