"""That nothing is chosen by what is tested, and that numbers are what they are called; never how good."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.svm import SVC

from wlkernelnn.bench import about
from wlkernelnn.bench import graph_kernels as bench
from wlkernelnn.cli.main import main as command
from wlkernelnn.datasets import PackedGraphs, load_molecules, load_tu, random_split, tu
from wlkernelnn.kernels.wl_subtree import WLSubtreeKernel


@pytest.fixture(autouse=True)
def small_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "DEPTHS", (0, 1, 2))
    monkeypatch.setattr(bench, "CS", (0.1, 10.0, 1000.0))


def write_rings(root: Path, name: str = "RINGS", targets: str = "graph_labels") -> None:
    """Sixty cycles and paths of a few nodes with random labels, mostly 0; every seventh class is wrong."""
    rng = np.random.default_rng(0)
    files: dict[str, list[str]] = {"A": [], "graph_indicator": [], "node_labels": [], targets: []}
    first = 1
    for graph in range(60):
        size, is_ring = int(rng.integers(4, 9)), graph % 2
        files["graph_indicator"] += [str(graph + 1)] * size
        files["node_labels"] += [str(label) for label in rng.integers(0, 8, size) // 7]
        files[targets].append(str(is_ring if graph % 7 else 1 - is_ring))
        nodes = first + np.arange(size)
        for a, b in zip(nodes, np.roll(nodes, -1), strict=True):
            if is_ring or a < b:
                files["A"] += [f"{a}, {b}", f"{b}, {a}"]
        first += size
    (root / "tu" / name).mkdir(parents=True)
    for part, lines in files.items():
        (root / "tu" / name / f"{name}_{part}.txt").write_text("\n".join(lines))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_rings(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def rings(root: Path) -> tuple[list[np.ndarray], np.ndarray]:
    data = load_tu("RINGS", root)
    return bench.wl_grams(data), data.y.numpy()[:, 0].astype(int)


def test_grams_are_normalised_ones_of_every_depth_by_node_labels(data_root: Path) -> None:
    data = load_tu("MUTAG", data_root)[:30]
    assert data.description.num_edge_types == 4
    grams = bench.wl_grams(data)
    assert len(grams) == 3
    for depth, gram in enumerate(grams):
        plain = WLSubtreeKernel(depth, edge_labels=False)(data)
        lengths = np.sqrt(np.diagonal(plain))
        np.testing.assert_allclose(gram, plain / lengths / lengths[:, None], rtol=1e-12)
    counts = np.array([np.bincount(graph.x[:, 0], minlength=7) for graph in data], dtype=float)
    counts /= np.linalg.norm(counts, axis=1, keepdims=True)
    np.testing.assert_allclose(grams[0], counts @ counts.T, rtol=1e-12)


def test_choice_is_the_best_of_an_inner_cross_validation(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    train, test = next(StratifiedKFold(10, shuffle=True, random_state=3).split(y, y))
    record = bench.nested_fold(grams, y, train, test, seed=3)

    inner = StratifiedKFold(5, shuffle=True, random_state=3)
    right = np.zeros((3, 3))
    for depth, gram in enumerate(grams):
        for i, C in enumerate(bench.CS):
            machine = SVC(kernel="precomputed", C=C)
            predicted = cross_val_predict(machine, gram[np.ix_(train, train)], y[train], cv=inner)
            right[depth, i] = (predicted == y[train]).sum()
    assert len(np.unique(right)) > 3
    for kernel, depths in zip(bench.KERNELS, (3, 1), strict=True):
        # The first of the best: least depth, then least C.
        depth, i = min(zip(*np.nonzero(right[:depths] == right[:depths].max()), strict=True))
        assert (record[kernel]["depth"], record[kernel]["C"]) == (depth, bench.CS[i])
        machine = SVC(kernel="precomputed", C=bench.CS[i]).fit(grams[depth][np.ix_(train, train)], y[train])
        expected = (machine.predict(grams[depth][np.ix_(test, train)]) == y[test]).sum()
        assert record[kernel]["right"] == expected
    assert record["WL subtree"]["depth"] > 0
    assert record["given_up"] == 0


def test_the_test_part_chooses_nothing(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    rng = np.random.default_rng(0)
    for train, test in list(StratifiedKFold(10, shuffle=True, random_state=0).split(y, y))[:3]:
        other_y = y.copy()
        other_y[test] = 1 - y[test]
        other_grams = [gram.copy() for gram in grams]
        for gram in other_grams:
            gram[test] = rng.normal(size=(len(test), len(y)))
        before = bench.nested_fold(grams, y, train, test, seed=0)
        after = bench.nested_fold(other_grams, other_y, train, test, seed=0)
        for kernel in bench.KERNELS:
            assert [before[kernel][k] for k in ("depth", "C")] == [after[kernel][k] for k in ("depth", "C")]
        flipped = bench.nested_fold(grams, other_y, train, test, seed=0)
        for kernel in bench.KERNELS:
            assert flipped[kernel]["right"] == len(test) - before[kernel]["right"]


def test_cross_validation_looks_at_every_graph_once(rings: tuple[list[np.ndarray], np.ndarray]) -> None:
    grams, y = rings
    record = bench.cross_validate(grams, y, seed=1, n_jobs=1)
    folds = list(StratifiedKFold(10, shuffle=True, random_state=1).split(y, y))
    by_hand = [bench.nested_fold(grams, y, train, test, 1) for train, test in folds]
    for kernel in bench.KERNELS:
        assert record[kernel]["accuracy"] == sum(fold[kernel]["right"] for fold in by_hand) / 60
        assert record[kernel]["depth"] == [fold[kernel]["depth"] for fold in by_hand]
        assert record[kernel]["C"] == [fold[kernel]["C"] for fold in by_hand]
    assert record["WL subtree"]["accuracy"] > record["vertex histogram"]["accuracy"]
    two = bench.cross_validate(grams, y, seed=1, n_jobs=2)
    other = bench.cross_validate(grams, y, seed=2, n_jobs=1)
    assert two["WL subtree"] == record["WL subtree"] != other["WL subtree"]


def test_machines_that_give_up_are_counted(
    rings: tuple[list[np.ndarray], np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "MAX_ITER", 1)
    # Every machine: 5 inner folds of 3 depths and 3 values of C, and two at the end; 10 folds.
    assert bench.cross_validate(*rings, seed=0, n_jobs=1)["given_up"] == 10 * (5 * 9 + 2)


@pytest.fixture(scope="module")
def molecules() -> PackedGraphs:
    data = load_molecules("chembl2321810", cache=False)
    some = np.random.default_rng(0).permutation(len(data))[:150]
    return load_molecules([data.smiles[i] for i in some], y=data.y.numpy()[some], cache=False)


def test_ridge_is_exact_and_chosen_on_valid(molecules: PackedGraphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "PENALTIES", (10.0, 0.1, 0.001))
    split_idx = random_split(len(molecules), seed=0)
    record = bench.ridge_baseline(molecules, split_idx, degree=3)
    train, valid, test = (split_idx[part] for part in ("train", "valid", "test"))
    y = molecules.y.numpy()[:, 0].astype(np.float64)
    mean = y[train].mean()

    def rmse(prediction: np.ndarray, part: np.ndarray) -> float:
        return float(np.sqrt(np.mean((prediction - y[part]) ** 2)))

    best: dict[str, Any] = min(record["tried"], key=lambda tried: tried["valid"])
    assert record["chosen"] == best
    assert len(record["tried"]) == 12
    assert record["mean_rmse"] == pytest.approx(rmse(mean, test))
    for tried in record["tried"]:
        kernel = WLSubtreeKernel(3, edge_labels=tried["edge_labels"], normalize=tried["normalize"])
        gram = kernel(molecules)
        penalty = tried["penalty"] * np.diagonal(gram).mean()
        dual = np.linalg.solve(gram[np.ix_(train, train)] + penalty * np.eye(len(train)), y[train] - mean)
        assert tried["valid"] == pytest.approx(
            rmse(gram[np.ix_(valid, train)] @ dual + mean, valid), rel=1e-5
        )
        if tried is best:
            prediction = gram[np.ix_(test, train)] @ dual + mean
            assert record["rmse"] == pytest.approx(rmse(prediction, test), rel=1e-5)
            assert record["mae"] == pytest.approx(np.abs(prediction - y[test]).mean(), rel=1e-5)
    assert record["rmse"] < record["mean_rmse"]
    # Neither the targets of the test part nor its errors choose.
    other = y.copy()
    other[test] = -other[test]
    again = bench.ridge_baseline(molecules.with_targets(other), split_idx, degree=3)
    assert again["chosen"] == pytest.approx(record["chosen"])


def test_command_writes_tables_and_goes_on_where_it_was_interrupted(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"--data RINGS --repetitions 3 --n-jobs 1 --root {root} --output-dir".split()
    bench.main([*options, str(tmp_path / "whole")])
    expected = json.loads((tmp_path / "whole" / "graph_kernels_rings.json").read_text(encoding="utf-8"))

    calls = []
    cross_validate = bench.cross_validate

    def interrupted(grams: list[np.ndarray], y: np.ndarray, seed: int, n_jobs: int) -> dict[str, Any]:
        calls.append(seed)
        if calls == [0, 1]:
            raise KeyboardInterrupt
        return cross_validate(grams, y, seed, n_jobs)

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
    assert result["command"].startswith("wlkernelnn benchmark graph-kernels --data RINGS --repetitions 3")
    (record,), (whole,) = result["classification"], expected["classification"]
    for kernel in bench.KERNELS:
        for here, there in zip(record["repetitions"], whole["repetitions"], strict=True):
            assert here[kernel] == there[kernel]
    accuracy = [100 * repetition["WL subtree"]["accuracy"] for repetition in record["repetitions"]]
    assert len(set(accuracy)) > 1
    wanted = f"{np.mean(accuracy):.1f} ± {np.std(accuracy, ddof=1):.1f}"
    assert wanted != f"{np.mean(accuracy):.1f} ± {np.std(accuracy):.1f}"
    text = (folder / "graph_kernels_rings.md").read_text(encoding="utf-8")
    assert f"| RINGS | WL subtree | {wanted} |" in text
    printed = capsys.readouterr().out
    assert wanted in printed
    assert "quick" not in printed
    assert {"time", "revision", "scikit-learn"} <= result.keys()
    digest = load_tu("RINGS", root).digest()[:8]
    assert result["data"] == f"RINGS {digest}"
    assert f"* data: RINGS {digest}\n" in text


@pytest.fixture
def interrupted(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], list[int]]:
    """Options of a run that ended after one of two repetitions, and which ones are computed next."""
    calls: list[int] = []
    result = bench.cross_validate(bench.wl_grams(load_tu("RINGS", root)), np.arange(60) % 2, 0, 1)

    def cross_validate(grams: list[np.ndarray], y: np.ndarray, seed: int, n_jobs: int) -> dict[str, Any]:
        if calls == [0]:
            raise KeyboardInterrupt
        calls.append(seed)
        return result

    monkeypatch.setattr(bench, "cross_validate", cross_validate)
    monkeypatch.chdir(tmp_path)
    options = f"--data RINGS --repetitions 2 --n-jobs 1 --root {root}".split()
    with pytest.raises(KeyboardInterrupt):
        bench.main(options)
    calls.clear()
    return options, calls


PARTIAL = Path("bench/results/graph_kernels_rings.partial.json")


@pytest.mark.parametrize("name", ["revision", "torch", "scikit-learn", "scipy"])
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

    def offline(url: str, *_: object) -> None:
        raise OSError(f"{url}: no network")

    monkeypatch.setattr(bench, "cross_validate", nothing)
    monkeypatch.setattr(tu, "download", offline)
    options = f"benchmark graph-kernels --data RINGS RINGGS --root {root} --output-dir {tmp_path / 'out'}"
    assert command(options.split()) == 1
    assert "error: RINGGS: there is no tu/RINGGS/RINGGS_A.txt in" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_quick_command_says_so(
    root: Path,
    molecules: PackedGraphs,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bench, "load_molecules", lambda *_, **__: molecules)
    monkeypatch.setattr(bench, "QUICK_MOLECULES", 120)
    monkeypatch.setattr(bench, "PENALTIES", (1.0, 0.1))
    options = (
        f"benchmark graph-kernels --quick --data cep RINGS --root {root} --output-dir {tmp_path / 'out'}"
    )
    assert command(options.split()) == 0
    result = json.loads((tmp_path / "out" / "graph_kernels_cep_rings.json").read_text(encoding="utf-8"))
    assert (result["mode"], result["repetitions"]) == ("quick", 1)
    assert [(record["degree"], record["graphs"]) for record in result["regression"]] == [(3, 120), (6, 120)]
    assert [len(record["repetitions"]) for record in result["classification"]] == [1]
    text = (tmp_path / "out" / "graph_kernels_cep_rings.md").read_text(encoding="utf-8")
    row = f"| 6 | {result['regression'][1]['rmse']:.4f} | {result['regression'][1]['mae']:.4f} |"
    assert row in text
    assert text.startswith("# Classical baselines (quick)")
    assert capsys.readouterr().out.count("(quick)") == 2


def test_bad_options_are_explained(root: Path, tmp_path: Path) -> None:
    folder = ["--output-dir", str(tmp_path / "out"), "--root", str(root)]
    with pytest.raises(ValueError, match="--repetitions: expected at least 1, got 0"):
        bench.main(["--repetitions", "0", *folder])
    write_rings(root, "NUMBERS", targets="graph_attributes")
    with pytest.raises(ValueError, match="--data: NUMBERS is a regression, expected a classification"):
        bench.main(["--data", "NUMBERS", *folder])
    assert not (tmp_path / "out").exists()
