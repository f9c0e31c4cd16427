from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from wlkernelnn.bench.harness.colour_picture import draw_colours
from wlkernelnn.bench.harness.report import SETTING, benchmark_of, draw_scores, main


def write(folder: Path, stem: str, text: str, **record: object) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{stem}.md").write_text(text)
    (folder / f"{stem}.json").write_text(json.dumps(record))


def run(folder: Path, page: str) -> str:
    """The text of a page, of all that are written to ``docs``."""
    picture = folder / "docs" / "picture.svg"
    places = ["--results-dir", folder / "results", "--output-dir", folder / "docs", "--picture", picture]
    places += ["--colours", folder / "colours.svg"]
    main([str(word) for word in places])
    return (folder / "docs" / f"{page}.md").read_text()


def score(model: str, value: float, data: str = "esol") -> dict[str, object]:
    scores = {"test": {"rmse": value}}
    return {"data": data, "split": "random", "model": model, "metric": "rmse", "scores": scores}


def test_a_page_per_benchmark_and_an_index_by_subject(tmp_path: Path) -> None:
    links = "[x](x.png) [y](https://example.org/y) [z](#first-one)"
    write(
        tmp_path / "results", "ogb_b", f"# Words (full)\n\n| a |\n| --- |\n| {links} |\n", runs=[{"acc": 1}]
    )
    write(tmp_path / "results", "ogb_a", "# First one\n\n# Part\n", rows=[])
    write(tmp_path / "results", "lfp", "# Signals\n", runs=[{"scores": {"valid": {"rmse": 1.0}}}])
    page = run(tmp_path, "ogb")
    assert page.startswith("# ogb\n")
    assert "`wlkernelnn benchmark ogb`" in page
    assert page.index("## First one\n") < page.index("\n## Part") < page.index("## Words\n")
    assert "[x](../results/x.png) [y](https://example.org/y) [z](#first-one)" in page
    index = (tmp_path / "docs" / "index.md").read_text()
    assert (
        index.index("## Molecules")
        < index.index("\nogb\n")
        < index.index("## Signals")
        < index.index("\nlfp\n")
    )
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == ["index.md", "lfp.md", "ogb.md"]


def test_a_benchmark_is_the_longest_name(tmp_path: Path) -> None:
    names = {"rrnn_ptb": "rrnn", "rrnn_speed": "rrnn-speed", "cep": "cep", "awd_lm": "awd-lm"}
    assert {stem: benchmark_of(Path(f"{stem}.md")) for stem in names} == names
    with pytest.raises(ValueError, match=r"cepo\.md: expected a name that begins with that of a benchmark"):
        benchmark_of(Path("cepo.md"))


def test_ratios_and_scores_are_drawn(tmp_path: Path) -> None:
    row = {"what": "ours", "against": "theirs", "ratio": 2.0, "low": 1.5, "high": 3.0}
    write(tmp_path / "results", "kernel_speed", "# Speed\n", rows=[row])
    runs = [score("a", 1.0), score("a", 1.1), score("b", 0.7), score("b", 0.2, "freesolv")]
    write(tmp_path / "results", "zinc", "# Scores\n", runs=runs)
    run(tmp_path, "index")
    for stem, page, title in (("kernel_speed", "kernel-speed", "Speed"), ("zinc", "zinc", "Scores")):
        assert f"![{title}]({stem}.png)" in (tmp_path / "docs" / f"{page}.md").read_text()
        assert (tmp_path / "docs" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")


def test_time_to_train(tmp_path: Path) -> None:
    """Seconds per epoch, of median rates: in batches of 128 and in the best ones."""
    contestants = ("chemprop", "GINE×4", "colours", "colours, fused")
    records = [
        {"contestant": name, "size": size, "rates": [1.0, factor * size, 1e9]}
        for factor, name in enumerate(contestants, 1)
        for size in (128, 1024)
    ]
    slow = [record | {"rates": [1.0]} for record in records]
    tables = [
        {"part": "data", "setting": {"dataset": "hiv", "molecules": 7}, "records": []},
        {"part": "data", "setting": {"dataset": "cep", "molecules": 10240}, "records": []},
        # Of other settings.
        *(
            {"part": "epoch", "setting": SETTING | other, "records": slow}
            for other in ({"dataset": "hiv"}, {"threads": 1}, {"precision": "medium"}, {"molecules": 9})
        ),
        {"part": "epoch", "setting": SETTING, "records": records},
    ]
    write(tmp_path / "results", "speed", "# Speed\n", tables=tables)
    run(tmp_path, "speed")
    drawn = (tmp_path / "docs" / "picture.svg").read_text()
    assert "chemprop: 80.0 s, 10.0 s; PyG's GINE: 40.0 s, 5.0 s;" in drawn
    run(tmp_path, "speed")
    assert (tmp_path / "docs" / "picture.svg").read_text() == drawn
    write(tmp_path / "results", "speed", "# Speed\n", tables=tables[:-1])
    with pytest.raises(ValueError, match=r"speed\.json: expected a table of .* dataset cep, readout sum"):
        run(tmp_path, "speed")


def test_an_ensemble_of_a_models_runs_has_a_line_of_its_own() -> None:
    together = score("a", 0.9) | {"members": []}
    runs = [score("a", 1.0), score("a", 1.1), together, score("b", 0.7) | {"members": []}]
    figure, axes = plt.subplots()
    draw_scores(runs, axes)
    plt.close(figure)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a, ensemble", "a"]
    assert [line.get_xdata().tolist() for line in axes.get_lines()] == [[0.7], [0.9], [1.0, 1.1]]


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no results; run a benchmark first"):
        run(tmp_path, "index")


@pytest.mark.parametrize(
    ("text", "record", "message"),
    [
        ("# Title\n", '{"runs": ', r"lfp\.json: not JSON"),
        ("Some notes\n", "{}", r"lfp\.md: expected a title on the first line, got 'Some notes'"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, text: str, record: str, message: str) -> None:
    write(tmp_path / "results", "lfp", text)
    (tmp_path / "results" / "lfp.json").write_text(record)
    with pytest.raises(ValueError, match=message):
        run(tmp_path, "index")


def test_molecule_by_its_colours(tmp_path: Path) -> None:
    figure = draw_colours("CCO", depth=1)
    left, right = figure.axes
    assert left.get_title() == "3 atoms, 3 colours after 1 iterations"
    counts = [text.get_text() for text in right.texts]
    assert sorted(counts) == ["1"] * 6
    drawn = draw_colours().axes[1]
    assert sum(int(text.get_text()) for text in drawn.texts) == 3 * 13
