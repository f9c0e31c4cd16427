"""Lightning's loggers by name."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from wlkernelnn.utils.checks import check_one_of

LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")
# In a run folder.
LOGS = "logs"


def check_logger(kind: str | None) -> None:
    """Refuse a logger that does not exist, or whose package is not installed.

    Raises:
        ValueError: There is no such logger.
        ImportError: Its package is missing.
    """
    if kind is None:
        return
    check_one_of("logger", kind, LOGGERS)
    if kind != "csv" and find_spec(kind) is None:
        raise ImportError(f"logger {kind} needs the package {kind}: pip install {kind}")


def make_logger(kind: str | None, directory: Path, name: str) -> Any:
    """A logger of one network, which writes below ``logs`` in a run folder; ``None`` without a ``kind``.

    Args:
        kind: One of :data:`LOGGERS`.
        directory: The run folder.
        name: Of the network: ``model_0``, ….
    """
    check_logger(kind)
    from pytorch_lightning import loggers

    where, run = directory / LOGS, f"{directory.absolute().name}-{name}"
    if kind == "csv":
        return loggers.CSVLogger(where, name="", version=name)
    if kind == "tensorboard":
        return loggers.TensorBoardLogger(where, name="", version=name)
    if kind == "wandb":
        where.mkdir(parents=True, exist_ok=True)
        return _weights_and_biases(name=run, save_dir=where, project="wlkernelnn")
    if kind == "mlflow":
        where.mkdir(parents=True, exist_ok=True)
        where = where.absolute()
        database, files = f"sqlite:///{where / 'mlflow.db'}", (where / "artifacts").as_uri()
        return loggers.MLFlowLogger("wlkernelnn", run, tracking_uri=database, artifact_location=files)
    return None


def _weights_and_biases(**options: Any) -> Any:
    """Lightning's logger, which ends its run with the training: the next network starts another."""
    from pytorch_lightning import loggers

    class OneRun(loggers.WandbLogger):
        def finalize(self, status: str) -> None:
            super().finalize(status)
            if self._experiment is not None:
                self._experiment.finish(exit_code=int(status != "success"))

    return OneRun(**options)
