"""Networks of strings: language models and classifiers."""

from .classifiers import StringClassifier, TextClassifier
from .language_model import LanguageModel
from .string_kernel_network import StringKernelNetwork

__all__ = [
    "LanguageModel",
    "StringClassifier",
    "StringKernelNetwork",
    "TextClassifier",
]
