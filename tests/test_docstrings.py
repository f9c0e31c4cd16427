"""Examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path
from types import ModuleType

import pytest

import wlkernelnn
import wlkernelnn.bench
import wlkernelnn.datasets
import wlkernelnn.sequence

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> list[doctest.DocTest]:
    """Those of all public names, without the names of their modules: they import what they need."""
    rooms = [wlkernelnn, wlkernelnn.sequence, wlkernelnn.datasets, wlkernelnn.bench]
    names = [name for _, name, is_package in pkgutil.iter_modules(wlkernelnn.__path__) if is_package]
    rooms += [importlib.import_module(f"wlkernelnn.{name}") for name in names]
    public = {id(item): (name, item) for room in rooms for name, item in _public(room)}
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name, item in public.values() for test in finder.find(item, name, globs={})]
    return [test for test in found if test.examples]


def _public(room: ModuleType) -> list[tuple[str, object]]:
    return [(name, getattr(room, name)) for name in getattr(room, "__all__", ())]


@pytest.mark.parametrize("test", examples(), ids=lambda test: test.name)
def test_examples(test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    said: list[str] = []
    assert runner.run(test, out=said.append).failed == 0, "".join(said)
