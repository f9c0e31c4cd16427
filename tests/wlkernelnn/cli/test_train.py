from __future__ import annotations

import inspect
import json
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.inputs.molecules import (
    MOLECULES,
    ROWS,
    SMALL_RUN,
    assert_same_weights,
    classification_set,
    regression_set,
    write_table,
)
from wlkernelnn.cli.main import main
from wlkernelnn.cli.train import GROUPS, OWN_OPTIONS, NetworkOptions
from wlkernelnn.models import SHORT_NAMES, KernelStackNetwork
from wlkernelnn.training import load_ensemble
from wlkernelnn.training.molecules.module import NetworkModule


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "set.csv", regression_set())


def train(*arguments: Any) -> int:
    return main(["train", *SMALL_RUN, *map(str, arguments)])


def test_help_has_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        train("--help")
    assert left.value.code == 0
    out = capsys.readouterr().out
    for name in [field.name for source in GROUPS.values() for field in fields(source)]:
        assert re.search(rf"^  --{name.replace('_', '-')}\b", out, re.MULTILINE), name
    assert ":class:" not in out
    for choices in (
        "--pooling {sum,mean}",
        "--readout {sum,last,cat}",
        "--compose {mul,add}",
        "--jumping {last,sum,cat}",
    ):
        assert choices in out


@pytest.mark.parametrize("name", SHORT_NAMES)
def test_options_have_the_defaults_of_the_networks(name: str) -> None:
    parameters = inspect.signature(SHORT_NAMES[name]).parameters
    for source in (NetworkOptions, OWN_OPTIONS[name]):
        for field in fields(source):
            if (name, field.name) != ("stack", "hidden_channels"):
                assert parameters[field.name].default == field.default, field.name


def test_a_run_and_what_is_printed(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f'"{smiles}",{i}' for i, (smiles, _) in enumerate(ROWS.values())]
    table.write_text(table.read_text() + "\n".join(lines))
    folder = tmp_path / "run"
    assert (
        train("--data-path", table, "--target-columns", "Act", "--output-dir", folder, "--on-invalid", "skip")
        == 0
    )
    out, err = capsys.readouterr()
    total, good = 60 + len(ROWS), 60 + sum(MOLECULES)
    assert f"{total} rows in = {good} molecules + {total - good} rejected" in err
    assert "1 rows repeat the SMILES" in err
    assert "epoch 1 of 2: train_loss" in err
    assert f"{total - good} rows were rejected, see {folder / 'rejects.csv'}" in out
    assert f"run folder: {folder}" in out

    report = json.loads((folder / "metrics.json").read_text())
    assert sum(report["counts"].values()) == good
    for part, count in report["counts"].items():
        title = "train, fitted" if part == "train" else part
        row = next(line for line in out.splitlines() if f" {title} " in line)
        assert f" {count} " in row
        assert f" {report['scores'][part]['mean'][report['metric']]:.4f} " in row
    rejects = pd.read_csv(folder / "rejects.csv", keep_default_na=False)
    assert rejects.columns.tolist() == ["row", "smiles", "reason"]
    assert rejects["row"].tolist() == [61 + i for i in np.flatnonzero(~np.array(MOLECULES))]
    assert rejects["reason"].str.len().gt(0).all()


def test_the_written_config_gives_the_same_run(run_folder: Path, tmp_path: Path) -> None:
    config = yaml.safe_load((run_folder / "config.yaml").read_text())
    assert config["target_columns"] == ["Act"]
    assert config["hidden_channels"] == 8
    assert config["ensemble_size"] == 2
    assert (
        main(["train", "--config", f"{run_folder / 'config.yaml'}", "--output-dir", f"{tmp_path / 'again'}"])
        == 0
    )
    again, before = load_ensemble(tmp_path / "again"), load_ensemble(run_folder)
    assert len(again.networks) == 2
    for came, expected in zip(again.networks, before.networks, strict=True):
        assert_same_weights(came, expected)
    for name in ("test_predictions.csv", "splits.json"):
        assert (tmp_path / "again" / name).read_bytes() == (run_folder / name).read_bytes()
    assert yaml.safe_load((tmp_path / "again" / "config.yaml").read_text()) == {
        **config,
        "output_dir": f"{tmp_path / 'again'}",
    }


def test_options_reach_network_and_training(table: Path, tmp_path: Path) -> None:
    line = "--decay 0.5 --pooling mean --no-norm --dropout 0.1 --walk-length 3 --features duvenaud --seed 5"
    line += (
        " --metric mae --bucket-width 0.5 --patience 1 --schedule exponential --ema-decay 0 --split scaffold"
    )
    assert (
        train(
            "--data-path", table, "--target-columns", "Act", "--output-dir", tmp_path / "run", *line.split()
        )
        == 0
    )
    ensemble = load_ensemble(tmp_path / "run")
    config = ensemble.networks[0].config
    expected = {"decay": 0.5, "pooling": "mean", "norm": False, "dropout": 0.1, "walk_length": 3}
    assert {name: config[name] for name in expected} == expected
    assert ensemble.about["features"] == "duvenaud"
    assert (
        ensemble.about["metric"]
        == json.loads((tmp_path / "run" / "metrics.json").read_text())["metric"]
        == "mae"
    )


def test_another_network(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["train", "--data-path", str(table), "--target-columns", "Act", "--epochs", "1", "--model", "wl"]
    run += ["--hidden-channels", "8", "--output-dir", str(tmp_path / "run"), "--num-layers", "2"]
    assert main(run) == 1
    assert "--num-layers is an option of --model stack, but the model is wl" in capsys.readouterr().err
    assert main([*run, "--network", "stack", "--virtual-node", "--jumping", "sum"]) == 0
    (net,) = load_ensemble(tmp_path / "run").networks
    assert isinstance(net, KernelStackNetwork)
    assert net.stack.virtual_node
    assert len(net.stack.convs) == 2


def test_classification_with_missing_labels_and_a_column_of_splits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = classification_set()
    labels = (["train"] * 3 + ["valid", "test"]) * 12
    table = write_table(tmp_path / "set.parquet", data, split=labels[: len(data)])
    command = ["--data-path", table, "--target-columns", "active", "aza", "--splits-column", "split"]
    assert train(*command, "--output-dir", tmp_path / "run") == 0
    out, err = capsys.readouterr()
    assert "taken as a classification task" in err
    assert "set.parquet: roc_auc (split: column split)" in out
    splits = json.loads((tmp_path / "run" / "splits.json").read_text())
    assert splits["test"] == list(range(4, len(data), 5))
    assert load_ensemble(tmp_path / "run").about["target_names"] == ["active", "aza"]


def test_names_with_brackets_are_shown_as_they_are(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table.rename(tmp_path / "set [red].csv")
    command = ["--data-path", tmp_path / "set [red].csv", "--target-columns", "Act"]
    assert train(*command, "--output-dir", tmp_path / "run [a]") == 0
    out = capsys.readouterr().out
    assert "set [red].csv: rmse (split: random)" in out
    assert "run [a]" in out


def test_presets(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A preset sets other defaults: options beside it win, and the written config says both."""
    command = ["train", "--data-path", str(table), "--target-columns", "Act", "--output-dir"]
    assert main([*command, str(tmp_path / "fast"), "--preset", "fast"]) == 0
    assert (tmp_path / "fast" / "model.safetensors").is_file()
    config = yaml.safe_load((tmp_path / "fast" / "config.yaml").read_text())
    assert (config["preset"], config["model"]) == ("fast", "linear")
    assert "--model linear --preset fast" in (tmp_path / "fast" / "report.html").read_text()
    again = ["train", "--config", str(tmp_path / "fast" / "config.yaml"), "--output-dir"]
    assert main([*again, str(tmp_path / "again")]) == 0
    assert main([*command, str(tmp_path / "no"), "--preset", "fast", "--model", "wl"]) == 1
    assert "--preset fast is --model linear, but --model wl is given" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "no"), "--preset", "fast", "--epochs", "3"]) == 1
    assert "--epochs is an option of --model wl and stack" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*command, "run", "--preset", "best", "--epochs", "3", "--print-config"])
    best = yaml.safe_load(capsys.readouterr().out)
    assert {name: best[name] for name in ("model", "epochs", "hidden_channels", "lr")} == {
        "model": "gp+stack",
        "epochs": 3,
        "hidden_channels": 64,
        "lr": 2e-3,
    }


def test_a_picture_that_cannot_be_drawn(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr("wlkernelnn.cli.pictures.draw_run", fails)
    command = ["--data-path", table, "--target-columns", "Act", "--output-dir", tmp_path / "run"]
    assert main(["train", *map(str, command), "--model", "linear"]) == 0
    out, err = capsys.readouterr()
    assert "no test_calibration.svg: RuntimeError: no fonts" in err
    assert "report: " in out
    assert "picture of" not in out


def test_a_logger(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--data-path", table, "--target-columns", "Act", "--output-dir", tmp_path / "run"]
    monkeypatch.setattr("wlkernelnn.training.loggers.find_spec", lambda name: None)
    assert train(*command, "--logger", "wandb") == 1
    assert "logger wandb needs the package wandb: pip install wandb" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert train(*command, "--logger", "csv") == 0
    logged = pd.read_csv(tmp_path / "run" / "logs" / "model_0" / "metrics.csv")
    history = pd.read_csv(tmp_path / "run" / "model_0" / "history.csv")
    assert logged["train_loss"].dropna().tolist() == pytest.approx(history["train_loss"].tolist(), rel=1e-5)
    assert main(["train", *map(str, command[:-1]), str(tmp_path / "machine"), "--logger", "csv"]) == 1
    assert "--logger is an option of --model wl and stack" in capsys.readouterr().err


# Interrupted and resumed


def test_interrupted_and_resumed(
    run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second epoch of the second network; resumed, the run equals one without interruption."""
    config, folder = run_folder / "config.yaml", tmp_path / "a run"
    step = NetworkModule.training_step

    def interrupted(self: NetworkModule, batch: Any, batch_idx: int) -> Any:
        if (self.options.seed, self.current_epoch) == (1, 1):
            raise KeyboardInterrupt
        return step(self, batch, batch_idx)

    with monkeypatch.context() as patch:
        patch.setattr(NetworkModule, "training_step", interrupted)
        assert main(["train", "--config", f"{config}", "--output-dir", f"{folder}"]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"wlkernelnn train: interrupted (--config '{folder / 'config.yaml'}' --resume goes on)"
    assert not (folder / "metrics.json").exists()

    assert main(["train", "--config", f"{folder / 'config.yaml'}", "--resume"]) == 0
    for came, expected in zip(
        load_ensemble(folder).networks, load_ensemble(run_folder).networks, strict=True
    ):
        assert_same_weights(came, expected)
    for i in (0, 1):
        assert sorted(path.name for path in (folder / f"model_{i}").iterdir()) == [
            "config.json",
            "history.csv",
            "model.safetensors",
        ]
    assert yaml.safe_load((folder / "config.yaml").read_text())["resume"] is False
    assert f"--model-path '{folder}' --preds-path" in (folder / "README.md").read_text("utf-8")


def test_a_finished_run_is_not_touched(
    run_folder: Path, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in run_folder.rglob("*") if path.is_file()}
    command = [
        "--data-path",
        table,
        "--target-columns",
        "Act",
        "--output-dir",
        run_folder,
        "--ensemble-size",
        "2",
    ]
    assert train(*command) == 1
    assert "holds a run already" in capsys.readouterr().err
    assert train(*command, "--resume", "--lr", "0.5") == 1
    assert "config.yaml: the run to resume has lr=0.001, but 0.5 is given" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run_folder.rglob("*") if path.is_file()} == before


def test_resuming_elsewhere(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The data's content counts, not where they lie; nor does the accelerator."""
    folder, moved = tmp_path / "run", tmp_path / "moved.csv"
    shutil.copytree(run_folder, folder)
    shutil.rmtree(folder / "model_1")
    (folder / "model_0" / "training").mkdir()  # of a run killed between its config and the tidying
    (folder / "model_0" / "training" / "last.ckpt").touch()
    text = (run_folder.parent / "molecules.csv").read_text()
    moved.write_text(text)
    command = ["train", "--config", f"{folder / 'config.yaml'}", "--output-dir", f"{folder}", "--resume"]
    command += ["--data-path", f"{moved}", "--accelerator", "cpu"]

    moved.write_text(text.replace(text.splitlines()[3].partition(",")[0], "CCO"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(command) == 1
    assert "origin.json: the run to resume has other data: their content differs" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    moved.write_text(text)
    assert main(command) == 0
    for came, expected in zip(
        load_ensemble(folder).networks, load_ensemble(run_folder).networks, strict=True
    ):
        assert_same_weights(came, expected)
    assert not [*folder.rglob("*.ckpt")]


def test_networks_of_an_unknown_run(
    run_folder: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run_folder / "model_0", folder / "model_0")
    before = sorted(folder.rglob("*"))
    assert train("--data-path", table, "--target-columns", "Act", "--output-dir", folder, "--resume") == 1
    assert "holds networks without the origin.json of their run" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
