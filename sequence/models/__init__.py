"""Networks of strings: language models and networks for classes."""

from .language_model import LanguageModel
from .networks import StringNetwork, TextNetwork
from .string_kernel_network import StringKernelNetwork

__all__ = [
    "LanguageModel",
    "StringKernelNetwork",
    "StringNetwork",
    "TextNetwork",
]
