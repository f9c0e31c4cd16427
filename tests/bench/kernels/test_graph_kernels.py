"""That nothing is chosen by what is tested, and that numbers are what they are called; never how good."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.inputs.molecules import regression_set
from tests.inputs.tu_files import write_rings
from wlkernelnn.bench.baselines import wl_machines
from wlkernelnn.bench.harness import provenance as about
from wlkernelnn.bench.kernels import graph_kernels as bench
from wlkernelnn.bench.kernels import nested_svm
from wlkernelnn.bench.kernels.graph_kernel_table import classification_rows
from wlkernelnn.bench.kernels.nested_svm import FAMILIES
from wlkernelnn.cli.main import main as command
from wlkernelnn.datasets import load_tu

WL_ROWS = {"WL subtree": (0, 1, 2), "vertex histogram": (0,)}


@pytest.fixture(autouse=True)
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (bench, nested_svm):
        monkeypatch.setattr(module, "CS", (0.1, 10.0, 1000.0))
    rows: dict[str, dict[str, tuple[int | None, ...]]] = {
        "wl": WL_ROWS,
        "wl-minmax": {"WL min-max": (0, 1)},
        "shortest-paths": {"shortest paths": (1, None)},
        "paths": {"paths": (2, 3)},
    }
    small = {name: replace(family, rows=rows[name]) for name, family in FAMILIES.items()}
    monkeypatch.setattr(bench, "FAMILIES", small)
    monkeypatch.setattr(nested_svm, "INNER_FOLDS", 2)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_rings(tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.slow
def test_command_writes_tables_and_goes_on_where_it_was_interrupted(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"--data RINGS --kernels wl --repetitions 3 --n-jobs 1 --root {root} --output-dir".split()
    bench.main([*options, str(tmp_path / "whole")])
    expected = json.loads((tmp_path / "whole" / "graph_kernels_rings.json").read_text(encoding="utf-8"))

    calls = []
    cross_validate = bench.cross_validate

    def interrupted(grams: Any, rows: Any, y: np.ndarray, seed: int, n_jobs: int) -> dict[str, Any]:
        calls.append(seed)
        if calls == [0, 1]:
            raise KeyboardInterrupt
        return cross_validate(grams, rows, y, seed, n_jobs)

    monkeypatch.setattr(bench, "cross_validate", interrupted)
    folder = tmp_path / "parts"
    with pytest.raises(KeyboardInterrupt):
        bench.main([*options, str(folder)])
    assert [path.name for path in folder.iterdir()] == ["graph_kernels_rings.partial.json"]
    capsys.readouterr()
    bench.main([*options, str(folder)])
    assert calls == [0, 1, 1, 2]
    assert sorted(path.name for path in folder.iterdir()) == [
        "graph_kernels_rings.json",
        "graph_kernels_rings.md",
    ]

    result = json.loads((folder / "graph_kernels_rings.json").read_text(encoding="utf-8"))
    assert (result["mode"], result["repetitions"], result["regression"]) == ("full", 3, [])
    assert result["command"].startswith(
        "wlkernelnn benchmark graph-kernels --data RINGS --kernels wl --repetitions 3"
    )
    (record,), (whole,) = result["classification"], expected["classification"]
    for kernel in WL_ROWS:
        for here, there in zip(record["repetitions"], whole["repetitions"], strict=True):
            assert here[kernel] == there[kernel]
    accuracy = [100 * repetition["WL subtree"]["accuracy"] for repetition in record["repetitions"]]
    assert len(set(accuracy)) > 1
    wanted = f"{np.mean(accuracy):.1f} ± {np.std(accuracy, ddof=1):.1f}"
    assert wanted != f"{np.mean(accuracy):.1f} ± {np.std(accuracy):.1f}"
    text = (folder / "graph_kernels_rings.md").read_text(encoding="utf-8")
    assert f"| RINGS | WL subtree | {wanted} | 3 |" in text
    printed = capsys.readouterr().out
    assert wanted in printed
    assert "quick" not in printed
    assert {"time", "revision", "scikit-learn"} <= result.keys()
    digest = load_tu("RINGS", root).digest()[:8]
    assert result["data"] == f"RINGS {digest}"
    assert f"* data: RINGS {digest}\n" in text


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """That of one repetition."""
    folder = tmp_path_factory.mktemp("rings")
    write_rings(folder)
    grams = replace(FAMILIES["wl"], rows=WL_ROWS).grams(load_tu("RINGS", folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested_svm, "CS", (1.0,))
        return bench.cross_validate(grams, WL_ROWS, np.arange(60) % 2, 0, 1)


@pytest.fixture
def interrupted(
    root: Path, result: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[str], list[int]]:
    """Options of a run that ended after one of two repetitions, and which ones are computed next."""
    calls: list[int] = []

    def cross_validate(grams: Any, rows: Any, y: np.ndarray, seed: int, n_jobs: int) -> dict[str, Any]:
        if calls == [0]:
            raise KeyboardInterrupt
        calls.append(seed)
        return result

    monkeypatch.setattr(bench, "cross_validate", cross_validate)
    monkeypatch.chdir(tmp_path)
    options = f"--data RINGS --kernels wl --repetitions 2 --n-jobs 1 --root {root}".split()
    with pytest.raises(KeyboardInterrupt):
        bench.main(options)
    calls.clear()
    return options, calls


PARTIAL = Path("bench/results/graph_kernels_rings.partial.json")


@pytest.mark.parametrize("name", ["revision", "scipy"])
def test_parts_of_another_revision_or_package_are_refused(
    interrupted: tuple[list[str], list[int]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, calls = interrupted
    before = PARTIAL.read_bytes()
    with monkeypatch.context() as patch:
        version, here = about._version, about.revision()
        patch.setattr(about, "revision", lambda: "another" if name == "revision" else here)
        patch.setattr(about, "_version", lambda package: "another" if package == name else version(package))
        with pytest.raises(ValueError, match=rf"partial\.json: holds parts of a run of {name} .* is another"):
            bench.main(options)
    assert calls == []
    assert PARTIAL.read_bytes() == before
    bench.main(options)
    assert calls == [1]
    assert not PARTIAL.exists()


def test_parts_of_other_data_are_not_taken(interrupted: tuple[list[str], list[int]], root: Path) -> None:
    options, calls = interrupted
    labels = root / "tu" / "RINGS" / "RINGS_graph_labels.txt"
    first, *others = labels.read_text().splitlines()
    labels.write_text("\n".join([str(1 - int(first)), *others]))
    bench.main([*options, "--repetitions", "1"])
    assert calls == [0]


def test_a_quick_run_leaves_the_full_one_alone(interrupted: tuple[list[str], list[int]]) -> None:
    options, calls = interrupted
    before = PARTIAL.read_bytes()
    for more in ([], ["--output-dir", "elsewhere"]):
        bench.main([*options, "--quick", *more])
        calls.clear()
    assert [path.name for path in PARTIAL.parent.iterdir()] == [PARTIAL.name]
    assert PARTIAL.read_bytes() == before
    for folder in (Path("runs/quick"), Path("elsewhere")):
        assert sorted(path.name for path in folder.iterdir()) == [
            "graph_kernels_rings.json",
            "graph_kernels_rings.md",
        ]
    # Even in the same folder.
    PARTIAL.rename("elsewhere/graph_kernels_rings.partial.json")
    bench.main([*options, "--quick", "--output-dir", "elsewhere"])
    assert Path("elsewhere/graph_kernels_rings.partial.json").read_bytes() == before


def test_one_repetition_has_no_deviation(interrupted: tuple[list[str], list[int]]) -> None:
    options, _ = interrupted
    bench.main([*options, "--repetitions", "1", "--output-dir", "one"])
    text = Path("one/graph_kernels_rings.md").read_text(encoding="utf-8")
    row = re.search(r"RINGS \| WL subtree \| (.*?) \|", text)
    assert row is not None
    assert re.fullmatch(r"\d+\.\d", row[1])


def test_a_name_that_is_misspelt_is_noticed_first(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(*_: object, **__: object) -> None:
        raise AssertionError("something was computed")

    def offline(url: str, *_: object, **__: object) -> None:
        raise OSError(f"{url}: no network")

    monkeypatch.setattr(bench, "cross_validate", nothing)
    monkeypatch.setattr(sys.modules["wlkernelnn.datasets.files.download"], "download", offline)
    options = f"benchmark graph-kernels --data RINGS RINGGS --root {root} --output-dir {tmp_path / 'out'}"
    assert command(options.split()) == 1
    assert "error: RINGGS: there is no tu/RINGGS/RINGGS_A.txt in" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_quick_command_says_so(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "load_molecules", lambda *_, **__: regression_set())
    monkeypatch.setattr(bench, "QUICK_MOLECULES", 50)
    monkeypatch.setattr(wl_machines, "PENALTIES", (1.0, 0.1))
    options = (
        f"benchmark graph-kernels --quick --data cep RINGS --root {root} --output-dir {tmp_path / 'out'}"
    )
    assert command(options.split()) == 0
    result = json.loads((tmp_path / "out" / "graph_kernels_cep_rings.json").read_text(encoding="utf-8"))
    assert (result["mode"], result["repetitions"]) == ("quick", 1)
    assert [(record["degree"], record["graphs"]) for record in result["regression"]] == [(3, 50), (6, 50)]
    rows = [(*WL_ROWS,), ("WL min-max",), ("shortest paths",), ("paths",)]
    for record, names in zip(result["classification"], rows, strict=True):
        assert len(record["repetitions"]) == 1
        assert record["repetitions"][0].keys() == {"given_up", "seconds", *names}
    text = (tmp_path / "out" / "graph_kernels_cep_rings.md").read_text(encoding="utf-8")
    row = f"| 6 | {result['regression'][1]['rmse']:.4f} | {result['regression'][1]['mae']:.4f} |"
    assert row in text
    assert text.startswith("# Classical baselines (quick)")
    assert capsys.readouterr().out.count("(quick)") == 2


@pytest.mark.slow
def test_rows_of_some_kernels_are_added_to_the_table(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rings(root, "OTHERS")
    monkeypatch.setattr(bench, "PUBLISHED", {"RINGS": "90", "OTHERS": ""})
    options = f"--n-jobs 1 --root {root} --output-dir {tmp_path}".split()
    bench.main([*options, "--kernels", "wl", "--repetitions", "2"])
    path = tmp_path / "graph_kernels.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    page = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()

    def add(*kernels: str) -> tuple[dict[str, Any], list[str]]:
        bench.main([*options, "--data", "RINGS", "--kernels", *kernels, "--repetitions", "1"])
        assert sorted(file.name for file in tmp_path.glob("graph*")) == [
            "graph_kernels.json",
            "graph_kernels.md",
        ]
        lines = path.with_suffix(".md").read_text(encoding="utf-8").splitlines()
        return json.loads(path.read_text(encoding="utf-8")), [line for line in lines if line not in page]

    added, new = add("shortest-paths", "paths")
    assert [record["data"] for record in added["classification"]] == [*3 * ["RINGS"], "OTHERS"]
    assert [added["classification"][i] for i in (0, 3)] == before["classification"]
    assert added["repetitions"] == 2
    assert added["protocol"]["kernels"]["paths"] == [2, 3]
    assert added["protocol"]["kernels"]["WL subtree"] == [0, 1, 2]
    rows, note = new[:-1], new[-1]
    assert [line.split(" | ")[1] for line in rows] == ["shortest paths", "paths"]
    assert [line.split(" | ")[3:5] for line in rows] == [["1", ""]] * 2
    assert note.startswith(f"* added: command wlkernelnn benchmark graph-kernels {' '.join(options)}")
    assert "repetitions 1" in note

    # Once more: its row is replaced.
    again, _ = add("paths")
    assert len(again["classification"]) == 4
    assert (
        again["classification"][2]["repetitions"][0]["seconds"]
        != (added["classification"][2]["repetitions"][0]["seconds"])
    )
    assert len(again["added"]) == 2

    monkeypatch.setattr(bench, "MAX_ITER", 5)
    monkeypatch.setattr(bench, "cross_validate", None)  # nothing is computed
    with pytest.raises(ValueError, match=r"graph_kernels\.json: holds parts of a run of max_iter 1000000"):
        add("paths")


def test_any_distance_has_a_name() -> None:
    found = {"accuracy": 0.5, "setting": [None, 2, None], "C": [1.0]}
    record = {
        "data": "RINGS",
        "published": "",
        "repetitions": [{"given_up": 0, "seconds": 1.0, "row": found}],
    }
    assert classification_rows([record])[1] == ("RINGS", "row", "50.0", "1", "", "any", "1", "0", "1")


def test_bad_options_are_explained(root: Path, tmp_path: Path) -> None:
    folder = ["--output-dir", str(tmp_path / "out"), "--root", str(root)]
    with pytest.raises(ValueError, match="--repetitions: expected at least 1, got 0"):
        bench.main(["--repetitions", "0", *folder])
    write_rings(root, "NUMBERS", targets="graph_attributes")
    with pytest.raises(ValueError, match="--data: NUMBERS is a regression, expected a classification"):
        bench.main(["--data", "NUMBERS", *folder])
    assert not (tmp_path / "out").exists()
