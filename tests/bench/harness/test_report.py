from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from wlkernelnn.bench.harness.report import anchor, draw_scores, main


def write(folder: Path, stem: str, text: str, **record: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{stem}.md").write_text(text)
    (folder / f"{stem}.json").write_text(json.dumps(record))


def run(folder: Path) -> str:
    main(["--results-dir", str(folder / "results"), "--output", str(folder / "docs" / "page.md")])
    return (folder / "docs" / "page.md").read_text()


def score(model: str, value: float, data: str = "esol") -> dict[str, object]:
    scores = {"test": {"rmse": value}}
    return {"data": data, "split": "random", "model": model, "metric": "rmse", "scores": scores}


def test_tables_follow_each_other_under_headings(tmp_path: Path) -> None:
    tuned = {"scores": {"valid": {"rmse": 1.0}}}
    runs = [{"acc": 1}, tuned]
    links = "[x](x.png) [y](https://example.org/y) [z](#first-one)"
    write(tmp_path / "results", "b", f"# Words (full)\n\n| a |\n| --- |\n| {links} |\n", runs=runs)
    write(tmp_path / "results", "a", "# First one\n\n# Part\n", rows=[])
    page = run(tmp_path)
    assert page.index("## First one\n") < page.index("\n## Part") < page.index("## Words (full)\n")
    assert "* [Words (full)](#words-full)\n" in page
    assert "[x](../results/x.png) [y](https://example.org/y) [z](#first-one)" in page
    assert not (tmp_path / "docs" / "page").exists()  # nothing to draw


def test_ratios_and_scores_are_drawn(tmp_path: Path) -> None:
    row = {"what": "ours", "against": "theirs", "ratio": 2.0, "low": 1.5, "high": 3.0}
    write(tmp_path / "results", "speed", "# Speed\n", rows=[row])
    runs = [score("a", 1.0), score("a", 1.1), score("b", 0.7), score("b", 0.2, "freesolv")]
    write(tmp_path / "results", "scores", "# Scores\n", runs=runs)
    page = run(tmp_path)
    for stem, title in (("speed", "Speed"), ("scores", "Scores")):
        assert f"![{title}](page/{stem}.png)" in page
        assert (tmp_path / "docs" / "page" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_an_ensemble_of_a_models_runs_has_a_line_of_its_own() -> None:
    together = score("a", 0.9) | {"members": []}
    runs = [score("a", 1.0), score("a", 1.1), together, score("b", 0.7) | {"members": []}]
    figure, axes = plt.subplots()
    draw_scores(runs, axes)
    plt.close(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a, ensemble", "a"]
    assert [line.get_xdata().tolist() for line in axes.get_lines()] == [[0.7], [0.9], [1.0, 1.1]]


def test_names_of_headings() -> None:
    assert anchor("Speed of n-grams (full)") == "speed-of-n-grams-full"


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no results; run a benchmark first"):
        run(tmp_path)


def test_pages_without_an_ending(tmp_path: Path) -> None:
    write(tmp_path / "results", "a", "# Title\n")
    with pytest.raises(ValueError, match=r"--output: expected the name of a page, .* got .*page"):
        main(["--results-dir", str(tmp_path / "results"), "--output", str(tmp_path / "page")])


def test_damaged_files_are_named(tmp_path: Path) -> None:
    write(tmp_path / "results", "a", "# Title\n")
    (tmp_path / "results" / "a.json").write_text('{"runs": ')
    with pytest.raises(ValueError, match=r"a\.json: not JSON"):
        run(tmp_path)


def test_another_file(tmp_path: Path) -> None:
    write(tmp_path / "results", "notes", "Some notes\n")
    with pytest.raises(ValueError, match=r"notes\.md: expected a title on the first line, got 'Some notes'"):
        run(tmp_path)
