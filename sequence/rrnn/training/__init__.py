"""Losses and schedules for training grown trees."""

from .gradients import GradientConstants, gradient_constants, state_gradients
from .scorer import alternate, imitation
from .tree_loss import TreeLoss

__all__ = [
    "GradientConstants",
    "TreeLoss",
    "alternate",
    "gradient_constants",
    "imitation",
    "state_gradients",
]
