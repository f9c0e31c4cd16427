"""Every public name is documented on one page of docs/api; names that others rely on are importable."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

PACKAGES = (
    "wlkernelnn",
    "wlkernelnn.colours",
    "wlkernelnn.conv",
    "wlkernelnn.models",
    "wlkernelnn.estimators",
    "wlkernelnn.training",
    "wlkernelnn.kernels",
    "wlkernelnn.machines",
    "wlkernelnn.report",
    "wlkernelnn.datasets",
    "wlkernelnn.sequence",
    "wlkernelnn.sequence.rrnn",
    "wlkernelnn.testing",
    "wlkernelnn.ops.graph",
    "wlkernelnn.ops.string",
    "wlkernelnn.ops.colours",
)
PAGES = sorted((Path(__file__).parents[1] / "docs" / "api").glob("*.md"))
#: Where names are documented that a second package has too.
HOMES = {
    "wlkernelnn": ("wlkernelnn.conv", "wlkernelnn.estimators"),
    "wlkernelnn.sequence.rrnn": ("wlkernelnn.sequence",),
    "wlkernelnn.testing": ("wlkernelnn.sequence",),
}

#: Import paths and names that other code already uses.
CONTRACT = {
    "wlkernelnn": "WLKernelConv RandomWalkKernelConv DeepKernelConv MoleculeRegressor MoleculeClassifier",
    "wlkernelnn.models": "GraphKernelNetwork",
    "wlkernelnn.colours": "to_colours Colours",
    "wlkernelnn.kernels": "RandomWalkKernel WLSubtreeKernel WLKernel StringKernel "
    "DeepGraphKernel DeepStringKernel ShortestPathKernel PathKernel MoleculeKernel",
    "wlkernelnn.sequence": "path_graph StringKernelConv StringKernelNetwork RKM SyncFilters "
    "RecurrentKernelMachine RRNN RRNNGRU",
    "wlkernelnn.datasets": "load_molecules load_ogb PackedGraphs PackedLoader",
    "wlkernelnn.testing": "assert_matches_kernel",
}


def documented() -> list[str]:
    """Full names in the order of the pages, as their directives give them."""
    directive = re.compile(r"^\.\. (auto\w+|py:data):: (\S+)", re.MULTILINE)
    found = [match for page in PAGES for match in directive.findall(page.read_text("utf-8"))]
    return [one for kind, name in found for one in (sorted(public(name)) if kind == "automodule" else [name])]


def public(package: str) -> set[str]:
    return {f"{package}.{name}" for name in import_module(package).__all__ if not name.startswith("__")}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_documented(package: str) -> None:
    names = {name.rpartition(".")[2] for name in public(package)}
    homes = (package, *HOMES.get(package, ()))
    missing = {name for name in names if not any(f"{home}.{name}" in documented() for home in homes)}
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
