"""What a training comes to: scores, or, which is a result too, that it diverged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch

from wlkernelnn.training import DivergedError, FitResult

from .trained import Record, spread

Result = TypeVar("Result", bound=FitResult)


def outcome(
    network: torch.nn.Module,
    accelerator: str,
    recipe_epochs: int,
    fit: Callable[[], Result],
    scores: Callable[[Result], Record],
    epochs: int | None = None,
) -> Record:
    """Train, and score what was trained: what a record says of it.

    Args:
        network: What is trained.
        accelerator: Lightning's, by which it is trained, and on which it is scored.
        recipe_epochs: The whole recipe's.
        fit: Trains.
        scores: What to say of a training that did not diverge.
        epochs: How many were wanted: a recipe with patience that trained fewer ended by itself.

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
    trained = len(fitted.history)
    return {
        "epochs": trained,
        "stopped": trained == recipe_epochs or trained < (epochs or 0),
        **scores(fitted),
        "seconds": sum(fitted.epoch_seconds),
        "history": fitted.history,
    }


def survivors(records: Sequence[Record]) -> list[Record]:
    """The runs that did not diverge."""
    return [record for record in records if "diverged" not in record]


def cell(values: Sequence[float], records: Sequence[Record], digits: int = 1) -> str:
    """Mean and standard deviation of what the survivors have, and how many of all runs diverged."""
    epochs = sorted({record["diverged"] + 1 for record in records if "diverged" in record})
    if not epochs:
        return spread(values, digits)
    if not values:
        return f"diverged at epoch {', '.join(map(str, epochs))}"
    return (
        f"{spread(values, digits)} ({len(records) - len(survivors(records))} of {len(records)} runs diverged)"
    )


def epochs_of(records: Sequence[Record]) -> int:
    """Those of the run that was trained least of the survivors, or, where there are none, of all."""
    return min(record["epochs"] for record in survivors(records) or records)


def seconds_per_epoch(records: Sequence[Record], digits: int = 0) -> str:
    """Mean over the survivors."""
    values = [record["seconds"] / record["epochs"] for record in survivors(records)]
    return f"{np.mean(values):.{digits}f}" if values else "–"
