"""Loggers by name, through stand-ins for Lightning's own where their packages are not installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning import loggers

from wlkernelnn.training.loggers import make_logger


class Recorded:
    """Takes what a logger takes; a run begins with it."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.names, self.options, self.ended = names, options, list[int]()
        self._experiment = SimpleNamespace(finish=lambda exit_code: self.ended.append(exit_code))

    def finalize(self, status: str) -> None:
        assert not self.ended


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wlkernelnn.training.loggers.find_spec", lambda name: True)
    for name in ("WandbLogger", "MLFlowLogger"):
        monkeypatch.setattr(loggers, name, Recorded)


@pytest.mark.parametrize(("status", "code"), [("success", 0), ("failed", 1)])
def test_networks_have_a_run_of_wandb_each(tmp_path: Path, status: str, code: int) -> None:
    """wandb would write the second network's epochs into the first one's run if that had not ended."""
    logger = make_logger("wandb", tmp_path, "model_0")
    assert logger.options["name"] == f"{tmp_path.name}-model_0"
    assert logger.options["save_dir"].is_dir()
    logger.finalize(status)
    assert logger.ended == [code]


def test_mlflow_writes_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mlflow 3 refuses a folder; the paths hold from another working directory."""
    monkeypatch.chdir(tmp_path)
    logger = make_logger("mlflow", Path("run"), "model_0")
    assert logger.names == ("wlkernelnn", "run-model_0")
    logs = tmp_path / "run" / "logs"
    assert logger.options["tracking_uri"] == f"sqlite:///{logs}/mlflow.db"
    assert logger.options["artifact_location"] == f"file://{logs}/artifacts"
    assert logs.is_dir()
