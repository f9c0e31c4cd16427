"""Training, scoring and keeping networks of molecules."""

from .columns import Columns, has_deviations, load_run, mean_and_std
from .ensemble import Ensemble, load_ensemble
from .fitting import fit
from .joint import JointModel
from .machine import train_joint, train_machine
from .metrics import METRICS, get_metric, score, score_tasks, unscored
from .prediction import embed, predict
from .recalibration import Recalibration
from .run import train_run
from .uncertainty import calibration, error_by_deviation, uncertainty

__all__ = [
    "METRICS",
    "Columns",
    "Ensemble",
    "JointModel",
    "Recalibration",
    "calibration",
    "embed",
    "error_by_deviation",
    "fit",
    "get_metric",
    "has_deviations",
    "load_ensemble",
    "load_run",
    "mean_and_std",
    "predict",
    "score",
    "score_tasks",
    "train_joint",
    "train_machine",
    "train_run",
    "uncertainty",
    "unscored",
]
