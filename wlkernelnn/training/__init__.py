"""Training: fit a network, score it, keep it in files."""

from .awd import AWDOptions, fit_awd
from .callbacks import DivergedError
from .checkpoint import load_checkpoint, save_checkpoint
from .classification import ClassifierOptions, accuracy, class_probabilities, fit_classifier
from .ensemble import Ensemble, load_ensemble
from .fit import fit
from .language import LanguageOptions, fit_language_model, perplexity
from .library import predict_tables
from .loop import FitResult
from .metrics import METRICS, get_metric, score, score_tasks, unscored
from .options import FitOptions, LoopOptions
from .predict import embed, predict
from .run import check_free, train_run, write_report
from .trees import TreeFit, TreeOptions, fit_trees, score_strings

__all__ = [
    "METRICS",
    "AWDOptions",
    "ClassifierOptions",
    "DivergedError",
    "Ensemble",
    "FitOptions",
    "FitResult",
    "LanguageOptions",
    "LoopOptions",
    "TreeFit",
    "TreeOptions",
    "accuracy",
    "check_free",
    "class_probabilities",
    "embed",
    "fit",
    "fit_awd",
    "fit_classifier",
    "fit_language_model",
    "fit_trees",
    "get_metric",
    "load_checkpoint",
    "load_ensemble",
    "perplexity",
    "predict",
    "predict_tables",
    "save_checkpoint",
    "score",
    "score_strings",
    "score_tasks",
    "train_run",
    "unscored",
    "write_report",
]
