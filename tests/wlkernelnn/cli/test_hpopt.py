from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from tests.inputs.molecules import regression_set, write_table

optuna = pytest.importorskip("optuna")

from wlkernelnn.cli import hpopt  # noqa: E402
from wlkernelnn.cli.main import main  # noqa: E402
from wlkernelnn.cli.presets import PRESETS, RANGES  # noqa: E402
from wlkernelnn.cli.train import OWN_OPTIONS, NetworkOptions  # noqa: E402
from wlkernelnn.training import FitOptions  # noqa: E402
from wlkernelnn.training.hpopt import Pruning, _distribution, open_study, search  # noqa: E402

SMALL = [
    *("--hidden-channels", "8", "--num-iterations", "2", "--epochs", "1"),
    *("--accelerator", "cpu", "--splits-column", "part"),
]


def write(path: Path, shift: float = 0.0) -> Path:
    """40 molecules, and which part each is of; the targets of the test part are shifted."""
    frame = pd.read_csv(write_table(path, regression_set()[:40]))
    frame["part"] = ["train"] * 24 + ["valid"] * 8 + ["test"] * 8
    frame.loc[frame["part"] == "test", "Act"] += shift
    frame.to_csv(path, index=False)
    return path


def run(table: Path, folder: Path, *more: Any) -> int:
    options = ["--data-path", table, "--target-columns", "Act", "--output-dir", folder, *SMALL, *more]
    return main(["hpopt", *map(str, options)])


def trials(folder: Path) -> pd.DataFrame:
    frame = pd.read_csv(folder / "trials.csv")
    return frame[["value", *(name for name in frame if name.startswith("params"))]]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("table") / "set.csv")


@pytest.fixture(scope="module")
def study(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studies") / "study"
    assert run(table, folder, "--trials", 3) == 0
    return folder


def test_train_repeats_the_best_trial(study: Path) -> None:
    assert (study / "study.png").read_bytes().startswith(b"\x89PNG")
    assert not (study / "trials").exists()
    values = trials(study)["value"]
    best = yaml.safe_load((study / "best.yaml").read_text())
    assert best["hidden_channels"] == 8
    assert best["lr"] == trials(study)["params_lr"][values.idxmin()]
    assert main(["train", "--config", str(study / "best.yaml")]) == 0
    report = json.loads((study / "best" / "metrics.json").read_text())
    assert report["valid"] == values.min()
    assert report["counts"] == {"train": 24, "valid": 8, "test": 8}


def test_trial_0_has_the_defaults_and_given_options_stay(study: Path) -> None:
    frame = trials(study)
    first = frame.iloc[0]
    assert first["params_lr"] == FitOptions.lr
    assert first["params_decay"] == NetworkOptions.decay
    assert "params_hidden_channels" not in frame
    assert "params_num_iterations" not in frame
    assert frame["params_lr"].nunique() == 3


def test_rejects_of_a_search_that_begins_by_resuming(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table)
    frame.loc[3, frame.columns[0]] = "C1CC"
    frame.to_csv(other := tmp_path / "other.csv", index=False)
    more = ("--trials", 1, "--on-invalid", "skip", "--resume")
    assert run(other, tmp_path / "study", *more) == 0
    assert pd.read_csv(tmp_path / "study" / "rejects.csv")["row"].tolist() == [4]


def test_the_test_part_changes_nothing(study: Path, tmp_path: Path) -> None:
    assert run(write(tmp_path / "other.csv", shift=100), tmp_path / "study", "--trials", 2) == 0
    pd.testing.assert_frame_equal(trials(tmp_path / "study"), trials(study)[:2])


def test_no_unit_of_a_target_decides(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, found = pd.read_csv(table), []
    for unit in (1.0, 1000.0):
        frame["other"] = unit * frame["smiles"].str.len()
        frame.to_csv(tmp_path / "two.csv", index=False)
        more = ["--target-columns", "other", "--trials", 1]
        assert run(tmp_path / "two.csv", tmp_path / f"study-{unit}", *more) == 0
        assert "rmse of the validation part, in deviations of the targets" in capsys.readouterr().out
        found.append(trials(tmp_path / f"study-{unit}")["value"])
    assert found[1].to_list() == pytest.approx(found[0].to_list(), rel=1e-4)


def test_a_search_that_was_interrupted_goes_on(
    table: Path,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls, train_model = [], hpopt.train_model

    def interrupted(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train_model(*arguments, **more)

    monkeypatch.setattr(hpopt, "train_model", interrupted)
    folder = tmp_path / "study"
    assert run(table, folder, "--trials", 2) == 130
    assert f"--config {folder / 'config.yaml'} --resume goes on" in capsys.readouterr().err
    # A kill leaves half a line, too.
    with (folder / "study.jsonl").open("a") as file:
        file.write('{"op_code":')
    assert run(table, folder) == 1
    assert "holds a search for options already: resume it" in capsys.readouterr().err
    assert main(["hpopt", "--config", str(folder / "config.yaml"), "--resume", "--trials", "3"]) == 0
    frame = pd.read_csv(folder / "trials.csv")
    assert frame["user_attrs_reason"].tolist()[1] == "interrupted"
    again = trials(folder).drop(index=1).reset_index(drop=True)
    pd.testing.assert_frame_equal(again, trials(study), check_dtype=False)
    # One that is finished needs no further trial.
    assert len(calls) == 4
    assert run(table, folder, "--resume", "--trials", 3) == 0
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--epochs", 2), "has epochs=1, but 2 is given"),
        (("--data-path", "other"), "the study to resume has data"),
    ],
)
def test_a_study_is_of_one_thing(
    change: tuple[str, Any], message: str, study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write(tmp_path / "other.csv", shift=1)
    change = (change[0], other) if change[1] == "other" else change
    config = ["--config", study / "config.yaml", "--resume", *change]
    before = (study / "config.yaml").read_bytes()
    assert main(["hpopt", *map(str, config)]) == 1
    assert message in capsys.readouterr().err
    assert (study / "config.yaml").read_bytes() == before


@pytest.mark.usefixtures("rendered")
def test_trials_that_fail_are_kept(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = iter([{"valid": 2.0}, {"valid": float("nan")}, ValueError("training diverged")] * 2)

    def made_up(*_: Any, **__: Any) -> Any:
        result = next(results)
        if isinstance(result, ValueError):
            raise result
        return None, result

    monkeypatch.setattr(hpopt, "train_model", made_up)
    assert run(table, tmp_path / "a", "--trials", 3) == 0
    frame = pd.read_csv(tmp_path / "a" / "trials.csv")
    assert frame["state"].tolist() == ["COMPLETE", "FAIL", "FAIL"]
    assert frame["user_attrs_reason"].tolist()[1:] == ["the validation score is nan", "training diverged"]
    next(results)
    assert run(table, tmp_path / "b", "--trials", 2) == 1
    assert "no trial has a score; the first: the validation score is nan" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--model", "wl", "stack"), "--model: expected one model to search, got wl stack"),
        (("--model", "auto"), "--model auto finds its numbers itself"),
        (("--preset", "fast"), "--model linear finds its numbers itself"),
        (("--data-path", "none.csv"), "none.csv: no such file"),
        (("--jumping", "sum"), "--jumping is an option of --model stack"),
        (("--trials", 0), "--trials: expected an integer of at least 1, got 0"),
    ],
)
def test_wrong_options(
    arguments: tuple[Any, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = run(tmp_path / "none.csv", tmp_path / "study", *arguments)
    except SystemExit as left:
        code = left.code
    assert code in (1, 2)
    assert message in capsys.readouterr().err


def test_what_is_needed(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.read_csv(table).query("part != 'valid'")
    frame.to_csv(tmp_path / "set.csv", index=False)
    assert run(tmp_path / "set.csv", tmp_path / "study") == 1
    assert "the split column part has no validation part" in capsys.readouterr().err
    monkeypatch.setattr(hpopt, "find_spec", lambda name: None)
    assert run(table, tmp_path / "study") == 1
    assert "pip install optuna" in capsys.readouterr().err


@pytest.mark.parametrize("network", RANGES)
def test_defaults_and_presets_lie_in_the_ranges(network: str) -> None:
    defaults = {**vars(NetworkOptions()), **vars(OWN_OPTIONS[network]()), **vars(FitOptions())}
    presets = [values for values in PRESETS.values() if values["model"].endswith(f"+{network}")]
    for values in [defaults, *presets]:
        for name, range_ in RANGES[network].items():
            assert name in defaults
            if name in values:
                distribution = _distribution(range_)
                assert distribution._contains(distribution.to_internal_repr(values[name])), name


def test_a_trial_worse_than_the_median_is_pruned(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    study = open_study(path, maximize=True, epochs=4, first={"lr": 0.5}, about={})

    class Trainer:
        callback_metrics: dict[str, float]

    class Module:
        metric = "r2"

    def objective(trial: Any) -> float:
        callback, trainer = Pruning(trial), Trainer()
        for _ in range(4):
            trainer.callback_metrics = {"valid_r2": -1.0 if trial.number == 5 else trial.params["lr"]}
            callback.on_validation_end(trainer, Module())  # type: ignore[arg-type]
        return float(trial.params["lr"])

    search(study, objective, {"lr": {"low": 0.5, "high": 1.0}}, path=path, trials=6)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 5 + ["PRUNED"]
    assert study.trials[5].user_attrs["reason"] == "worse than the median after epoch 2"
    assert study.best_value == max(trial.params["lr"] for trial in study.trials[:5])


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_search_that_ends_while_options_are_drawn(kept: int, tmp_path: Path) -> None:
    ranges = {name: {"low": 0.0, "high": 1.0} for name in ("lr", "dropout")}

    def options(path: Path) -> list[dict[str, float]]:
        study = open_study(path, maximize=True, epochs=4, first={}, about={})
        search(study, lambda trial: trial.params["lr"], ranges, path=path, trials=4)
        return [trial.params for trial in study.trials if trial.state.name == "COMPLETE"]

    expected = options(tmp_path / "whole.jsonl")
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    drawn = {"trial_id": 2, "op_code": 5}.items()
    first, second = (i for i, line in enumerate(lines) if drawn <= json.loads(line).items())
    (tmp_path / "cut.jsonl").write_text("".join(lines[: (first, second, second + 1)[kept]]))
    assert options(tmp_path / "cut.jsonl") == expected


@pytest.mark.slow
def test_workers_do_the_same_trials(table: Path, study: Path, tmp_path: Path) -> None:
    assert run(table, tmp_path / "study", "--trials", 3, "--workers", 2) == 0
    # Options of the first ten trials do not depend on results.
    pd.testing.assert_frame_equal(trials(tmp_path / "study"), trials(study))
