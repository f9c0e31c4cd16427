"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.molecules import regression_set
from wlkernelnn.datasets import PackedGraphs


@pytest.fixture
def parts() -> tuple[PackedGraphs, PackedGraphs]:
    data = regression_set()
    return data[:45], data[45:]


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[float]], None]:
    """Lets validation find these scores, epoch after epoch."""

    def find(values: list[float]) -> None:
        scores = iter(values)
        monkeypatch.setattr("wlkernelnn.training.module.score", lambda *_: next(scores))

    return find
