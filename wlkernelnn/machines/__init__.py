"""Learners on exact kernels."""

from .gaussian_process import GaussianProcess

__all__ = ["GaussianProcess"]
