from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from wlkernelnn.bench.harness.cells import Record, scored
from wlkernelnn.bench.harness.experiment import Experiment, Page, Trial
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.harness.trained import TrainedOptions
from wlkernelnn.training import DivergedError, FitResult

TABLE = Table("Toys", [("model", lambda runs: runs[0]["model"]), ("score", scored("score"))], lambda run: ())


@dataclass(frozen=True)
class Recipe:
    epochs: int = 2
    seed: int = 0
    accelerator: str = "cpu"


def fit(network: torch.nn.Module, recipe: Recipe, directory: Path, resume: bool) -> FitResult:
    assert resume
    history = [{"epoch": float(epoch)} for epoch in range(recipe.epochs)]
    return FitResult("accuracy", 0.5, 1, history, 9.0, [3.5] * recipe.epochs)


def trial(**more: Any) -> Trial:
    toy = Trial(
        ("toy", "seed_0"),
        Recipe(),
        lambda: torch.nn.Linear(1, 1),
        fit,
        lambda network, fitted: {"score": fitted.score},
        {"model": "toy"},
    )
    return replace(toy, **more)


def test_a_benchmark_is_its_runs_and_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn: list[tuple[int, str]] = []

    def pages(options: TrainedOptions) -> Iterator[Page]:
        trials = (trial(recipe=Recipe(seed=seed), names=(str(seed),)) for seed in options.all_seeds)
        yield Page(TABLE, trials, draw=lambda runs, path: drawn.append((len(runs), path.name)))
        yield Page(TABLE, [], "no_runs", draw=lambda runs, path: drawn.append((0, path.name)))

    main = Experiment("some-toys", "Toys.", TrainedOptions, pages, ("pandas",), {"seeds": 2}).main
    main(["--run-dir", str(tmp_path / "runs"), "--output-dir", str(tmp_path)])
    found = json.loads((tmp_path / "some_toys.json").read_text())
    assert {"torch", "pandas", "device", "threads"} <= found.keys()
    assert [run["seed"] for run in found["runs"]] == [0, 1]
    assert found["runs"][0].items() >= {"model": "toy", "parameters": 2, "command": found["command"]}.items()
    assert (tmp_path / "some_toys.md").read_text().startswith("# Toys (full)\n\n| model | score |\n")
    assert drawn == [(2, "some_toys.png")]
    assert "0.5 ± 0.0" in capsys.readouterr().out


@pytest.mark.parametrize(("recipe", "epochs", "stopped"), [(2, None, True), (3, 2, False)])
def test_trainings_that_come_to_scores(
    recipe: int, epochs: int | None, stopped: bool, tmp_path: Path
) -> None:
    found = trial(recipe=Recipe(recipe))(TrainedOptions(epochs=epochs, run_dir=tmp_path), {})
    outcome = {"epochs": 2, "stopped": stopped, "best_epoch": 1, "score": 0.5, "seconds": 7.0}
    assert found.items() >= outcome.items()
    assert len(found["history"]) == 2


def test_a_recipe_may_end_by_itself(tmp_path: Path) -> None:
    def impatient(network: torch.nn.Module, recipe: Recipe, **where: Any) -> FitResult:
        return fit(network, replace(recipe, epochs=1), **where)

    found = trial(fit=impatient)(TrainedOptions(run_dir=tmp_path), {})
    assert (found["epochs"], found["stopped"]) == (1, True)


def test_trainings_that_diverge_are_over(tmp_path: Path) -> None:
    def diverges(*_: Any, **__: Any) -> FitResult:
        raise DivergedError("training diverged: …", epoch=1)

    options = TrainedOptions(run_dir=tmp_path)
    found = trial(fit=diverges)(options, {})
    assert found.items() >= {"epochs": 1, "stopped": True, "diverged": 1}.items()
    assert "score" not in found
    assert trial()(options, {}) == found  # nothing is trained again


def test_other_errors_are_errors(tmp_path: Path) -> None:
    def fails(*_: Any, **__: Any) -> FitResult:
        raise ValueError("num_tokens must be positive, got 0")

    with pytest.raises(ValueError, match="num_tokens"):
        trial(fit=fails)(TrainedOptions(run_dir=tmp_path), {})


@pytest.mark.parametrize(
    ("accelerator", "there", "moved"),
    [("auto", True, True), ("gpu", True, True), ("cpu", True, False), ("auto", False, False)],
)
def test_scored_where_it_was_trained(
    accelerator: str, there: bool, moved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    network = torch.nn.Linear(1, 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(network, "cuda", lambda: seen.append("moved"))

    def score(*_: Any) -> Record:
        seen.append("scored")
        return {}

    some = trial(recipe=Recipe(accelerator=accelerator), build=lambda: network, score=score)
    some(TrainedOptions(run_dir=tmp_path), {})
    assert seen == [*(["moved"] if moved else []), "scored"]


def test_networks_are_drawn_by_the_seed_of_their_run(tmp_path: Path) -> None:
    drawn = []

    def build() -> torch.nn.Module:
        drawn.append(float(torch.rand(1)))
        return torch.nn.Linear(1, 1)

    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        trial(recipe=Recipe(seed=seed), names=(folder,), build=build)(TrainedOptions(run_dir=tmp_path), {})
    assert drawn[0] == drawn[1] != drawn[2]
