"""Learners on exact kernels."""

from .classifier import GaussianProcessClassifier
from .gaussian_process import GaussianProcess

__all__ = ["GaussianProcess", "GaussianProcessClassifier"]
