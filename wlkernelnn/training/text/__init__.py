"""Training of language models, text classifiers and grown trees; runs of texts."""

from wlkernelnn.training.classes import class_scores

from .awd import AWDOptions, fit_awd
from .classification import accuracy, class_probabilities, fit_classifier
from .language import fit_language_model, perplexity
from .machine import train_text_machine
from .model import StringEnsemble, load_string_run
from .prediction import TextColumns, predict_texts
from .run import train_language, train_texts
from .scores import score_strings
from .trees import TreeFit, TreeOptions, fit_trees

__all__ = [
    "AWDOptions",
    "StringEnsemble",
    "TextColumns",
    "TreeFit",
    "TreeOptions",
    "accuracy",
    "class_probabilities",
    "class_scores",
    "fit_awd",
    "fit_classifier",
    "fit_language_model",
    "fit_trees",
    "load_string_run",
    "perplexity",
    "predict_texts",
    "score_strings",
    "train_language",
    "train_text_machine",
    "train_texts",
]
