"""Training: fit a network, score it, keep it in files."""

from .checkpoint import load_checkpoint, save_checkpoint
from .fit import FitResult, fit
from .library import predict_tables
from .metrics import METRICS, get_metric, score, score_tasks
from .options import FitOptions
from .predict import predict
from .run import Ensemble, check_free, load_ensemble, train_run, write_report

__all__ = [
    "METRICS",
    "Ensemble",
    "FitOptions",
    "FitResult",
    "check_free",
    "fit",
    "get_metric",
    "load_checkpoint",
    "load_ensemble",
    "predict",
    "predict_tables",
    "save_checkpoint",
    "score",
    "score_tasks",
    "train_run",
    "write_report",
]
