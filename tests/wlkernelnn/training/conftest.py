"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.inputs.molecules import regression_set
from tests.wlkernelnn.training.runs import run
from wlkernelnn.datasets import PackedGraphs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two networks; not to be changed."""
    folder = tmp_path_factory.mktemp("run") / "of" / "two"
    run(folder, ensemble_size=2)
    return folder


@pytest.fixture
def parts() -> tuple[PackedGraphs, PackedGraphs]:
    data = regression_set()
    return data[:45], data[45:]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """Lets validation find these scores, epoch after epoch."""

    def find(values: list[float]) -> None:
        scores = iter(values)
        monkeypatch.setattr("wlkernelnn.training.molecules.module.score", lambda *_: next(scores))

    return find
