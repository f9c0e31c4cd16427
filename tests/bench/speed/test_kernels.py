"""That both sides of every row do the same; never how fast."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("grakel")

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness import timing
from wlkernelnn.bench.harness.timing import Usage
from wlkernelnn.bench.speed import kernels as kernel_speed
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import WLSubtreeKernel
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.labels import node_labels


@pytest.fixture
def data() -> PackedGraphs:
    return regression_set()[::2]


def test_graphs_are_the_same(data: PackedGraphs) -> None:
    labels = node_labels(flat_graphs(data))
    first = 0
    for graph, theirs, plain in zip(
        data, kernel_speed.grakel_graphs(data), kernel_speed.grakel_graphs(data, labelled=False), strict=True
    ):
        source, target = graph.edge_index
        adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
        adjacency[target, source] = 1
        np.testing.assert_array_equal(theirs.get_adjacency_matrix(), adjacency)
        np.testing.assert_array_equal(plain.get_adjacency_matrix(), adjacency)
        named = theirs.get_labels(purpose="dictionary")
        assert named == dict(enumerate(labels[first : first + graph.num_nodes].tolist()))
        first += graph.num_nodes


def test_grams_agree(data: PackedGraphs) -> None:
    theirs = kernel_speed.grakel_wl_gram(kernel_speed.grakel_graphs(data))
    np.testing.assert_array_equal(kernel_speed.wl_gram(data), theirs)
    theirs = kernel_speed.grakel_min_max_gram(kernel_speed.grakel_graphs(data))
    np.testing.assert_array_equal(kernel_speed.min_max_gram(data), theirs)
    counts = WLSubtreeKernel(kernel_speed.ITERATIONS, edge_labels=False).features(data).toarray()
    np.testing.assert_array_equal(kernel_speed.dense_min_max_rows(counts, 4), theirs[:4])
    few = data[:6]
    walks = kernel_speed.grakel_walk_gram(kernel_speed.grakel_graphs(few, labelled=False))
    np.testing.assert_allclose(kernel_speed.walk_gram(kernel_speed.plain_graphs(few)), walks, rtol=1e-5)


def test_grams_that_differ_are_refused() -> None:
    known: dict[str, str | int] = {}
    kernel_speed.agree("a", 0.0, 0.0, known)
    kernel_speed.agree("b", 1e-7, 1e-5, known)
    assert known == {"a, largest difference": "0 (bitwise equal)", "b, largest difference": "1.0e-07"}
    for difference in (1e-4, np.nan):
        with pytest.raises(RuntimeError, match=r"c: our Gram and theirs are .* apart"):
            kernel_speed.agree("c", difference, 1e-5, known)


def test_extrapolation_goes_through_both_sizes() -> None:
    usages = [Usage(2.0 * n + 0.5 * n**2, 3 * n**2) for n in (10, 20)]
    used = kernel_speed.extrapolated((10, 20), usages, 100)
    assert used.seconds == pytest.approx(5200.0)
    assert used.peak == 30_000


def test_main_writes_the_table(
    data_root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], *args: Any) -> Usage:
        return timing._measure(call, prepare, args)

    monkeypatch.setenv("WLKERNELNN_DATA", str(data_root))
    monkeypatch.setattr(kernel_speed, "usage", here)
    monkeypatch.chdir(tmp_path)
    kernel_speed.main(["--quick", "--dataset", "chembl2321810"])
    result = json.loads(Path("runs/quick/kernel_speed.json").read_text(encoding="utf-8"))
    assert not Path("bench").exists()
    assert {row["what"] for row in result["rows"]} == {
        "WL Gram, 300",
        "min-max Gram, 50",
        "min-max Gram, 300",
        "random walk, 20",
        "WL colours, 1,017",
        "large Gram, 1,017, values/s",
        "large Gram, 1,017, memory",
    }
    assert result["WL Gram, MUTAG, largest difference"] == "0 (bitwise equal)"
    for what in ("WL Gram, 300", "min-max Gram, 50", "min-max Gram, 300"):
        assert result[f"{what}, largest difference"] == "0 (bitwise equal)"
    assert float(result["random walk, 20, largest difference"]) < 1e-5
    assert "grakel" in result
    assert "MB" in result["large Gram, GraKeL's, 400"]
    assert "quick" in capsys.readouterr().out
