"""Networks of strings: language models and classifiers."""

from .language_model import LanguageModel
from .string_classifier import StringClassifier
from .string_kernel_network import StringKernelNetwork
from .text_classifier import TextClassifier

__all__ = [
    "LanguageModel",
    "StringClassifier",
    "StringKernelNetwork",
    "TextClassifier",
]
