from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import PackedGraphs, molecules_from
from wlkernelnn.training import load_ensemble
from wlkernelnn.training.molecules.columns import Columns, digests
from wlkernelnn.training.screening import workers
from wlkernelnn.training.screening.workers import Predicted, Task, predict_task, predict_tasks
from wlkernelnn.utils.checks import check_predictions

SMILES: list[object] = ["CCO", "C1CC", *regression_set(20).smiles, None]


def tasks() -> Iterator[Task]:
    for first in range(0, len(SMILES), 5):
        yield Task(first, SMILES[first : first + 5])


def run(folder: Path, num_workers: int) -> list[Predicted]:
    return list(predict_tasks(tasks(), folder, load_ensemble(folder), 3, num_workers))


def test_a_task(run_folder: Path) -> None:
    ensemble = load_ensemble(run_folder)
    came = predict_task(ensemble, Task(100, SMILES), 3)
    assert came.position.tolist() == [i for i in range(len(SMILES)) if i not in (1, len(SMILES) - 1)]
    assert [reject.row for reject in came.rejects] == [101, 100 + len(SMILES) - 1]
    mean, std = ensemble.predict(molecules_from(SMILES, on_invalid="skip", cache=False))
    np.testing.assert_allclose(came.values, np.concatenate([mean, std], axis=1), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_processes_change_nothing(run_folder: Path, num_workers: int) -> None:
    threads = torch.get_num_threads()
    alone, helped = run(run_folder, 0), run(run_folder, num_workers)
    assert len(alone) == len(helped) == 5
    for one, other in zip(alone, helped, strict=True):
        assert one.position.tolist() == other.position.tolist()
        # Which process had which task before decides whose states are there: that may change the rounding.
        np.testing.assert_allclose(one.values, other.values, rtol=1e-3, atol=1e-6)
        assert str(one.rejects) == str(other.rejects)
    assert torch.get_num_threads() == threads


def test_a_failure_names_the_row(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = workers.featurize

    def fail(smiles: list[object], **options: Any) -> Any:
        if "CCN" in smiles:
            raise MemoryError("too large")
        return whole(smiles, **options)

    monkeypatch.setattr(workers, "featurize", fail)
    with pytest.raises(RuntimeError, match=r"data row 12: 'CCN': MemoryError: too large"):
        predict_task(load_ensemble(run_folder), Task(10, ["C", "CCN", "CC"]), 3)


def test_a_molecule_whose_prediction_is_not_finite(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rejected, unless all are: then the model is the reason."""
    columns = Columns()

    def values(self: Columns, model: Any, data: PackedGraphs, *_: Any) -> np.ndarray:
        result = np.array([[np.inf if smiles == "CCN" else 1.0] for smiles in data.smiles])
        check_predictions(result)
        return result

    monkeypatch.setattr(Columns, "values", values)
    ensemble = load_ensemble(run_folder)
    came = predict_task(ensemble, Task(10, ["CCN", "C1", "CC", "CCN", "CCO"], columns), 3)
    assert came.position.tolist() == [2, 4]
    assert [(reject.row, reject.smiles) for reject in came.rejects] == [(10, "CCN"), (11, "C1"), (13, "CCN")]
    assert came.rejects[0].reason == "the prediction is not a finite number"
    with pytest.raises(RuntimeError, match=r"data row 1: 'CCN': NotFiniteError: the model predicts values"):
        predict_task(ensemble, Task(0, ["CCN", "CCN"], columns), 3)


def test_a_model_that_is_replaced_while_processes_start(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows are predicted by one model, or none."""
    for name in ("_model", "_caches", "_failure"):
        monkeypatch.setattr(workers, name, None)
    ensemble = load_ensemble(run_folder)
    expected = digests(ensemble)
    workers._start(tmp_path / "nowhere", expected)  # in another process
    with pytest.raises(RuntimeError, match=r"the model could not be read again: .*nowhere: expected a run"):
        workers._work(Task(0, ["C"]), 3)
    ensemble.networks.reverse()
    ensemble.save(tmp_path)
    workers._start(tmp_path, expected)
    with pytest.raises(RuntimeError, match="was replaced while processes started"):
        workers._work(Task(0, ["C"]), 3)
    workers._start(run_folder, expected)
    assert workers._work(Task(0, ["C"]), 3).position.tolist() == [0]


SCRIPT = """
import logging
import sys
from pathlib import Path
from wlkernelnn.training.screening import filling, predict_tables

logging.basicConfig()
filling.ROWS = 5
folder, model = map(Path, sys.argv[1:3])
predict_tables([folder / "t.csv"], model, folder / "out.csv", folder / "rejects.csv", num_workers=1)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard(run_folder: Path, tmp_path: Path) -> None:
    """All rows are predicted; the warning names what is missing."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "t.csv").write_text("smiles\n" + "CCO\n" * 20)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path), str(run_folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'it lacks the line if __name__ == "__main__"' in done.stderr
    assert "Traceback" not in done.stderr
    assert len(pd.read_csv(tmp_path / "out.csv")["Act"].dropna()) == 20


def test_the_death_of_a_process_names_the_rows(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_start", math.dist)  # cannot start with these arguments
    died = r"a process died while data rows 1 … \d+ were being predicted"
    with pytest.raises(ChildProcessError, match=died):
        list(predict_tasks(tasks(), run_folder, load_ensemble(run_folder), 3, 1))
