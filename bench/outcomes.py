"""What a training comes to: scores, or, which is a result too, that it diverged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from wlkernelnn.training import DivergedError, FitResult

from .trained import Record, spread


def outcome(
    network: torch.nn.Module,
    accelerator: str,
    recipe_epochs: int,
    fit: Callable[[], FitResult],
    scores: Callable[[FitResult], Record],
) -> Record:
    """Train, and score what was trained: what a record says of it.

    Args:
        network: What is trained.
        accelerator: Lightning's, by which it is trained, and on which it is scored.
        recipe_epochs: The whole recipe's.
        fit: Trains.
        scores: What to say of a training that did not diverge.

    Returns:
        ``epochs``, ``stopped``, ``seconds``, ``history`` and scores. Of a training that diverged there are
        the epochs before, and ``diverged``, the epoch, counted from 0, in which it did, instead of scores.
    """
    try:
        fitted = fit()
    except DivergedError as error:
        return {"epochs": error.epoch, "stopped": True, "diverged": error.epoch}
    if accelerator in ("auto", "gpu", "cuda") and torch.cuda.is_available():
        network.cuda()  # Lightning leaves it on the CPU
    return {
        "epochs": len(fitted.history),
        "stopped": len(fitted.history) == recipe_epochs,
        **scores(fitted),
        "seconds": sum(fitted.epoch_seconds),
        "history": fitted.history,
    }


def survivors(records: Sequence[Record]) -> list[Record]:
    """The runs that did not diverge."""
    return [record for record in records if "diverged" not in record]


def cell(values: Sequence[float], records: Sequence[Record]) -> str:
    """Mean and standard deviation of what the survivors have, and how many of all runs diverged."""
    epochs = sorted({record["diverged"] + 1 for record in records if "diverged" in record})
    if not epochs:
        return spread(values)
    if not values:
        return f"diverged at epoch {', '.join(map(str, epochs))}"
    return f"{spread(values)} ({len(records) - len(survivors(records))} of {len(records)} runs diverged)"


def seconds_per_epoch(records: Sequence[Record], digits: int = 0) -> str:
    """Mean over the survivors."""
    values = [record["seconds"] / record["epochs"] for record in survivors(records)]
    return f"{np.mean(values):.{digits}f}" if values else "–"
