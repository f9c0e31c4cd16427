"""Training of language models, text classifiers and grown trees."""

from .awd import AWDOptions, fit_awd
from .classification import ClassifierOptions, accuracy, class_probabilities, fit_classifier
from .language import LanguageOptions, fit_language_model, perplexity
from .scores import score_strings
from .trees import TreeFit, TreeOptions, fit_trees

__all__ = [
    "AWDOptions",
    "ClassifierOptions",
    "LanguageOptions",
    "TreeFit",
    "TreeOptions",
    "accuracy",
    "class_probabilities",
    "fit_awd",
    "fit_classifier",
    "fit_language_model",
    "fit_trees",
    "perplexity",
    "score_strings",
]
