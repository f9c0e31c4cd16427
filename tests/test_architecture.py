"""The floors: imports go down only, rooms form no circle, and no room is crowded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOST_FILES = 14

#: The floor of every package below ``wlkernelnn``; imports go to the same floor or further down.
FLOORS = {
    "utils": 0,
    "blocks": 1,
    "ops": 1,
    "conv": 2,
    "kernels": 2,
    "sequence": 2,
    "datasets": 2,
    "colours": 3,
    "machines": 3,
    "models": 3,
    "training": 3,
    "testing": 3,
    "cli": 4,
    "report": 4,
    "estimators": 4,
    "bench": 5,
}


def folders() -> dict[str, Path]:
    """Package → folder, as setup.cfg maps them."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    lines = setup["options"]["package_dir"].strip().splitlines()
    return {package.strip(): ROOT / folder.strip() for package, folder in (line.split("=") for line in lines)}


def modules() -> dict[str, Path]:
    """Module → file, of the whole distribution."""
    found = {}
    for package, folder in folders().items():
        for file in folder.rglob("*.py"):
            parts = file.relative_to(folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = file
    return found


MODULES = modules()


def imported(module: str) -> Iterator[str]:
    """Modules of ours that a module imports, wherever in it; those for annotations alone count as well."""
    file = MODULES[module]
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "wlkernelnn")
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: 1 - node.level or None] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source.split(".")[0] == "wlkernelnn":
                names = [f"{source}.{alias.name}" for alias in node.names]
                yield from (name if name in MODULES else source for name in names)


@cache
def all_imports() -> dict[str, list[str]]:
    """Module → modules of ours that it imports."""
    return {module: sorted(set(imported(module)) - {module}) for module in MODULES}


def room(module: str) -> str:
    """The folder that a module stands in."""
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


def package(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def test_every_import_is_a_module() -> None:
    assert not {target for targets in all_imports().values() for target in targets} - set(MODULES)


def test_every_package_has_a_floor() -> None:
    packages = {package(module) for module, file in MODULES.items() if file.name == "__init__.py"}
    assert packages - {""} == set(FLOORS)


def test_imports_go_down() -> None:
    upward = [
        (module, target)
        for module, targets in all_imports().items()
        for target in targets
        if FLOORS.get(package(target), -1) > FLOORS.get(package(module), 9)
    ]
    # The verb `benchmark` starts what stands above it.
    assert upward == [("wlkernelnn.cli.benchmark", "wlkernelnn.bench")]


def test_blocks_know_no_operations() -> None:
    assert not [
        m for m, targets in all_imports().items() if package(m) == "blocks" and "ops" in map(package, targets)
    ]


@pytest.mark.parametrize("level", ["modules", "rooms"])
def test_no_circles(level: str) -> None:
    """Between modules, and between rooms; what a room's ``__init__`` re-exports does not count."""
    graph: dict[str, set[str]] = {}
    for module, targets in all_imports().items():
        if MODULES[module].name == "__init__.py":
            continue
        for target in targets:
            if level == "modules":
                graph.setdefault(module, set()).update(_defining(target, module))
            elif room(target) not in (room(module), "wlkernelnn") and room(module) != "wlkernelnn":
                graph.setdefault(room(module), set()).add(room(target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def _defining(target: str, module: str) -> set[str]:
    """The modules behind an import: of a package, all that are in it but the importing one."""
    if MODULES[target].name != "__init__.py":
        return {target}
    if target == "wlkernelnn":  # lazy
        return set()
    return {
        name for name in MODULES if name.startswith(target + ".") and MODULES[name].name != "__init__.py"
    } - {module}


def test_rooms_are_small() -> None:
    files: dict[str, int] = {}
    for module, file in MODULES.items():
        if file.name not in ("__init__.py", "__main__.py"):
            files[room(module)] = files.get(room(module), 0) + 1
    assert not {name: count for name, count in files.items() if count > MOST_FILES}


def test_folders_of_tests_are_small() -> None:
    folders = [ROOT / "tests", *(place for place in (ROOT / "tests").rglob("*") if place.is_dir())]
    files = {str(place.relative_to(ROOT)): len([*place.glob("*.py")]) for place in folders}
    assert not {name: count for name, count in files.items() if count > MOST_FILES + 1}  # and a conftest
