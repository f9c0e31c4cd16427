"""Training of tuples and scorer in turn."""

from __future__ import annotations

from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel


def alternate(model: TreeModel, epoch: int, every: int) -> str:
    """Let an epoch train either the tuples (L, R, b) or the scorer; everything else is always trained.

    Args:
        model: Its ``requires_grad`` are set.
        epoch: Counted from 0; tuples come first.
        every: After how many epochs it changes.

    Returns:
        ``"tuples"`` or ``"scorer"``.

    Raises:
        ValueError: ``every`` is not positive.
    """
    if every < 1:
        raise ValueError(f"every counts epochs: at least 1, got {every}")
    trained = ("tuples", "scorer")[epoch // every % 2]
    model.tuples.requires_grad_(trained == "tuples")
    model.scorer.requires_grad_(trained == "scorer")
    return trained
