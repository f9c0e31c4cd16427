"""The race of predictions of a store: its rows, and that both sides compute the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.inputs.molecules import regression_set, small_network
from wlkernelnn.bench.speed import store
from wlkernelnn.cli.main import main
from wlkernelnn.training import predict


def test_quick_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "QUICK_MOLECULES", 20)
    monkeypatch.setattr(store, "sample", lambda name, molecules: regression_set()[:molecules])
    options = ["--quick", "--threads", "1", "--output-dir", str(tmp_path)]
    assert main(["benchmark", "store-speed", *options]) == 0
    found = json.loads((tmp_path / "store_speed.json").read_text())
    assert [row["what"] for row in found["rows"]] == [
        what
        for name in store.NETWORKS
        for what in (f"predict, {name}", f"embed, {name}", f"predict, {name}, first call")
    ]
    for row in found["rows"]:
        assert min(row["ours"], row["theirs"], row["ratio"]) > 0
    assert found["molecules"] == 20


def test_the_first_predictions_find_colours_and_are_those_of_later_calls() -> None:
    data = regression_set()[::-2]
    net = small_network(data)
    known = [*data._colours.levels]
    np.testing.assert_array_equal(store.first_predictions(net, data), predict(net, data))
    assert len(data._colours.levels) >= len(known)
