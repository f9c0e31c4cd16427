"""Training: fit a model, score it, keep it in files."""
# ruff: noqa: F403, F405 (type checkers read the names of the rooms)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .options import FitOptions, LoopOptions
from .string_options import ClassifierOptions, LanguageOptions, StringNetworkOptions

if TYPE_CHECKING:
    from .callbacks import DivergedError
    from .checkpoint import load_checkpoint, save_checkpoint
    from .classes import class_scores
    from .crossval import *
    from .folder import check_free, write_report
    from .loop import FitResult
    from .molecules import *
    from .screening import predict_tables
    from .text import *

__all__ = [
    "METRICS",
    "AWDOptions",
    "ClassifierOptions",
    "Columns",
    "DivergedError",
    "Ensemble",
    "FitOptions",
    "FitResult",
    "Forecast",
    "JointModel",
    "LanguageOptions",
    "LoopOptions",
    "Recalibration",
    "StringEnsemble",
    "StringNetworkOptions",
    "TextColumns",
    "TreeFit",
    "TreeOptions",
    "accuracy",
    "calibration",
    "check_free",
    "class_probabilities",
    "class_scores",
    "corrected_t_test",
    "cross_validate",
    "embed",
    "error_by_deviation",
    "fit",
    "fit_awd",
    "fit_classifier",
    "fit_language_model",
    "fit_trees",
    "forecast",
    "get_metric",
    "has_deviations",
    "load_checkpoint",
    "load_ensemble",
    "load_run",
    "load_string_run",
    "mean_and_std",
    "perplexity",
    "predict",
    "predict_tables",
    "predict_texts",
    "quantile_scores",
    "save_checkpoint",
    "score",
    "score_strings",
    "score_tasks",
    "train_joint",
    "train_language",
    "train_machine",
    "train_run",
    "train_text_machine",
    "train_texts",
    "uncertainty",
    "unscored",
    "write_report",
]

_ROOMS = (
    "callbacks",
    "checkpoint",
    "classes",
    "crossval",
    "folder",
    "loop",
    "molecules",
    "screening",
    "text",
)


def __getattr__(name: str) -> Any:
    # Torch and Lightning take seconds to be imported: options and help do not wait for them.
    if name in __all__:
        for room in _ROOMS:
            module = import_module(f".{room}", __name__)
            if name in vars(module):
                return vars(module)[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
