"""Learners on exact kernels."""

from .classifier import GaussianProcessClassifier
from .explanation import Explanation, explain
from .gaussian_process import GaussianProcess
from .linear import LinearMachine
from .molecules import MoleculeMachine
from .saved import load_machine, save_machine
from .texts import TextMachine

__all__ = [
    "Explanation",
    "GaussianProcess",
    "GaussianProcessClassifier",
    "LinearMachine",
    "MoleculeMachine",
    "TextMachine",
    "explain",
    "load_machine",
    "save_machine",
]
