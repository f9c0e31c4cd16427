"""Training, scoring and keeping networks of molecules."""

from .ensemble import Ensemble, load_ensemble
from .fitting import fit
from .metrics import METRICS, get_metric, score, score_tasks, unscored
from .prediction import embed, predict
from .run import check_free, train_run, write_report

__all__ = [
    "METRICS",
    "Ensemble",
    "check_free",
    "embed",
    "fit",
    "get_metric",
    "load_ensemble",
    "predict",
    "score",
    "score_tasks",
    "train_run",
    "unscored",
    "write_report",
]
