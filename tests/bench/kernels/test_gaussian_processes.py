"""Exact and approximate Gaussian processes on few molecules: the rows of the table are what they say."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wlkernelnn.bench.harness import timing
from wlkernelnn.bench.kernels import gaussian_processes
from wlkernelnn.cli.main import main
from wlkernelnn.datasets import PackedGraphs, load_molecules


@cache
def some(name: str, features: str) -> PackedGraphs:
    ends = ("O", "N", "Cl", "F", "S")
    smiles = [f"{one}{'C' * n}{other}" for n in range(1, 13) for one, other in combinations(ends, 2)]
    smiles += [f"{'C' * n}{end}" for n in range(1, 13) for end in ends]
    noise = np.random.default_rng(0).normal(size=len(smiles))
    y = [len(text) / 4 + text.count("O") + 0.3 * draw for text, draw in zip(smiles, noise, strict=True)]
    return load_molecules(smiles, y=y, features=features, cache=False)


@pytest.fixture(autouse=True)
def few_molecules_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small molecules, and no process for each row, but what a process would be given can go there."""

    def here(
        call: Callable[..., object], prepare: Callable[..., tuple[Any, ...]], *args: Any
    ) -> timing.Usage:
        return timing._measure(*pickle.loads(pickle.dumps((call, prepare, args))))

    monkeypatch.setattr(gaussian_processes, "usage", here)
    monkeypatch.setattr(gaussian_processes, "load_molecules", some)


def test_quick_table(tmp_path: Path) -> None:
    options = ["--quick", "--dataset", "chembl2321810", "--output-dir", str(tmp_path)]
    assert main(["benchmark", "gp-speed", *options]) == 0
    found = json.loads((tmp_path / "gp_speed.json").read_text())
    assert [row["machine"] for row in found["rows"]] == [20, "exact", "auto"]
    for row in found["rows"]:
        assert row["rows"] == 100
        assert 0 < row["rmse"] < 2
        assert 0.5 < row["covered"] <= 1
        assert min(row["fit"], row["predict"]) > 0
        assert row["memory"] >= 0  # here a row may use memory that an earlier one left free
    page = (tmp_path / "gp_speed.md").read_text()
    assert "| 100 | 20 landmarks |" in page
    assert "| 100 | exact |" in page
    assert "| 100 | auto |" in page


def test_larger_training_parts_hold_the_smaller_ones() -> None:
    def rows_of(rows: int) -> tuple[list[int], list[int], Any]:
        train, test, landmarks, _ = gaussian_processes.prepared("chembl2321810", rows, 50, 7, "")
        return train.row.tolist(), test.row.tolist(), landmarks

    few, many = rows_of(40), rows_of(70)
    assert few[0] == many[0][:40]
    assert few[1:] == many[1:]
    assert many[2] == 7
    assert not {*many[0]} & {*many[1]}


def test_rows_of_the_table() -> None:
    row = gaussian_processes.Scale(5000, 1024, 1.25, 0.5, 3 * 10**9, 1.23456, 0.905)
    expected = ("5,000", "1,024 landmarks", "1.2", "0.5", "3,000", "1.235", "90.5")
    assert gaussian_processes.shown([row])[1] == expected
