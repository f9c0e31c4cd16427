from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.cli.pictures import draw_deviations


@pytest.mark.usefixtures("rendered")
def test_dollars_in_names_are_no_tex(tmp_path: Path) -> None:
    name, path = "price $_^$", tmp_path / "picture.svg"
    y = np.array([[0.0], [1.0]])
    draw_deviations(path, [name], y, y, y + 1, unit="$^$")
    for text in (name, "predicted deviation, $^$"):
        assert f">{text}<" in path.read_text()
