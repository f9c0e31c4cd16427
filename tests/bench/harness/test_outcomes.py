from __future__ import annotations

from typing import Any

import pytest
import torch

from wlkernelnn.bench.harness import outcomes
from wlkernelnn.training import DivergedError, FitResult

NETWORK = torch.nn.Linear(1, 1)
FITTED = FitResult("accuracy", 0.5, 1, [{"epoch": 0.0}, {"epoch": 1.0}], 9.0, [3.0, 4.0])


def diverges() -> FitResult:
    raise DivergedError("training diverged: …", epoch=2)


def no_scores(fitted: FitResult) -> dict[str, Any]:
    raise AssertionError("nothing was trained that could be scored")


@pytest.mark.parametrize(("recipe", "stopped"), [(2, True), (3, False)])
def test_trainings_that_come_to_scores(recipe: int, stopped: bool) -> None:
    found = outcomes.outcome(NETWORK, "cpu", recipe, lambda: FITTED, lambda fitted: {"best": fitted.epoch})
    assert found == {
        **{"epochs": 2, "stopped": stopped, "best": 1},
        **{"seconds": 7.0, "history": FITTED.history},
    }


def test_trainings_that_diverge_are_over() -> None:
    found = outcomes.outcome(NETWORK, "cpu", 9, diverges, no_scores)
    assert found == {"epochs": 2, "stopped": True, "diverged": 2}


def test_other_errors_are_errors() -> None:
    def fails() -> FitResult:
        raise ValueError("num_tokens must be positive, got 0")

    with pytest.raises(ValueError, match="num_tokens"):
        outcomes.outcome(NETWORK, "cpu", 9, fails, no_scores)


@pytest.mark.parametrize(
    ("accelerator", "there", "moved"),
    [("auto", True, True), ("gpu", True, True), ("cpu", True, False), ("auto", False, False)],
)
def test_scored_where_it_was_trained(
    accelerator: str, there: bool, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    network = torch.nn.Linear(1, 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(network, "cuda", lambda: seen.append("moved"))

    def scores(fitted: FitResult) -> dict[str, Any]:
        seen.append("scored")
        return {}

    outcomes.outcome(network, accelerator, 2, lambda: FITTED, scores)
    assert seen == [*(["moved"] if moved else []), "scored"]


def test_cells() -> None:
    fine = {"seconds": 6.0, "epochs": 3}
    lost = [{"epochs": 2, "diverged": 2}, {"epochs": 0, "diverged": 0}]
    assert outcomes.survivors([fine, *lost]) == [fine]
    assert outcomes.cell([1.0, 3.0], [fine, fine]) == "2.0 ± 1.4"
    assert outcomes.cell([1.0], [fine, *lost]) == "1.0 (2 of 3 runs diverged)"
    assert outcomes.cell([], lost) == "diverged at epoch 1, 3"
    assert outcomes.seconds_per_epoch([fine, *lost]) == "2"
    assert outcomes.seconds_per_epoch([fine], 1) == "2.0"
    assert outcomes.seconds_per_epoch(lost) == "–"
