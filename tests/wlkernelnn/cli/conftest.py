"""What the tests of commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def rendered() -> None:
    """Pictures are drawn to the last pixel."""


@pytest.fixture(autouse=True)
def empty_pictures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made, but their files are empty: to render one takes longer than a small training."""

    def save(figure: Figure, path: Path, **_: Any) -> None:
        Path(path).touch()

    if "rendered" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", save)
