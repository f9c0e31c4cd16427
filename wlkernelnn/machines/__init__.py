"""Learners on exact kernels."""

from .classifier import GaussianProcessClassifier
from .gaussian_process import GaussianProcess
from .molecules import MoleculeMachine
from .saved import load_machine, save_machine

__all__ = [
    "GaussianProcess",
    "GaussianProcessClassifier",
    "MoleculeMachine",
    "load_machine",
    "save_machine",
]
