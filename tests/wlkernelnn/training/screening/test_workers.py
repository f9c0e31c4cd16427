from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.molecules import regression_set
from wlkernelnn.datasets import molecules_from
from wlkernelnn.training import load_ensemble
from wlkernelnn.training.screening import workers
from wlkernelnn.training.screening.workers import Predicted, Task, predict_task, predict_tasks

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


def test_processes_change_nothing(run_folder: Path) -> None:
    threads = torch.get_num_threads()
    alone, helped = run(run_folder, 0), run(run_folder, 2)
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


def test_the_death_of_a_process_names_the_rows(run_folder: Path, tmp_path: Path) -> None:
    # A process that finds no network cannot start.
    with pytest.raises(
        ChildProcessError, match=r"a process died while data rows 1 … \d+ were being predicted"
    ):
        list(predict_tasks(tasks(), tmp_path / "nowhere", load_ensemble(run_folder), 3, 1))
