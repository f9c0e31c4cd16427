from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from wlkernelnn.bench.language.ptb_picture import draw


def run(model: str, perplexity: float, **more: Any) -> dict[str, Any]:
    says = {"recipe": {"epochs": 100}, "published_epochs": 100, "stopped": True}
    return {"model": model, "test_perplexity": perplexity, **says, **more}


def test_variants_beside_the_published_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    save = Figure.savefig

    def keep(figure: Figure, *given: Any, **options: Any) -> None:
        drawn.append(figure)
        save(figure, *given, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    runs = [
        run("gated-xh", 74.0),
        run("gated-xh", 76.0),
        run("gated-x", 78.0),
        run("constant", 85.0),
        run("learned", 80.0, stopped=False),
        run("cnn", 90.0, recipe={"epochs": 5}),
        run("lstm", 83.0),
    ]
    draw(runs, tmp_path / "ptb.png")
    (axis,) = drawn[0].axes
    labels = [label.get_text().replace("\n", " ") for label in axis.get_xticklabels()]
    assert labels == ["λ = 0.8", "λ gated by x", "λ gated by x and h"]
    ours, published = ([bar.get_height() for bar in bars] for bars in axis.containers)
    assert ours == [85.0, 78.0, 75.0]
    assert published == [84.3, 73.6]
    assert (tmp_path / "ptb.png").read_bytes().startswith(b"\x89PNG")


def test_rows_that_are_not_whole_make_no_picture(tmp_path: Path) -> None:
    draw([run("gated-x", 78.0), run("constant", 85.0, stopped=False)], tmp_path / "ptb.png")
    assert not [*tmp_path.iterdir()]


def test_the_committed_rows_make_one(tmp_path: Path) -> None:
    draw(json.loads(Path("bench/results/ptb.json").read_text())["runs"], tmp_path / "ptb.png")
    assert (tmp_path / "ptb.png").is_file()
