"""Training, scoring and keeping networks of molecules."""

from .columns import Columns, forecast, has_deviations, load_run, mean_and_std
from .ensemble import Ensemble, Forecast, load_ensemble
from .fitting import fit
from .joint import JointModel
from .machine import train_joint, train_machine
from .metrics import METRICS, get_metric, score, score_tasks, unscored
from .prediction import embed, predict
from .recalibration import Recalibration
from .run import train_run
from .uncertainty import calibration, error_by_deviation, quantile_scores, uncertainty

__all__ = [
    "METRICS",
    "Columns",
    "Ensemble",
    "Forecast",
    "JointModel",
    "Recalibration",
    "calibration",
    "embed",
    "error_by_deviation",
    "fit",
    "forecast",
    "get_metric",
    "has_deviations",
    "load_ensemble",
    "load_run",
    "mean_and_std",
    "predict",
    "quantile_scores",
    "score",
    "score_tasks",
    "train_joint",
    "train_machine",
    "train_run",
    "uncertainty",
    "unscored",
]
