"""The Lightning module behind every training: seeds, losses and scores by name, several processes, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from .options import LoopOptions


class TrainedModule(pl.LightningModule):
    """Trains a model: a subclass says the steps, and calls :meth:`mean_loss` and :meth:`log_score`.

    Args:
        model: The model.
        options: How to train.
        metric: Name of the score of validation, logged as ``valid_<metric>``: its best epoch is kept.
        maximize: Whether more is better.
    """

    def __init__(self, model: torch.nn.Module, options: LoopOptions, metric: str, maximize: bool) -> None:
        super().__init__()
        self.model: Any = model
        self.options: Any = options
        self.metric = metric
        self.maximize = maximize

    #: Whether a batch may be shared among processes: all losses go through :meth:`mean_loss`.
    shares_batches = False

    def on_train_epoch_start(self) -> None:
        # Dropout depends on the seed and the epoch alone: a resumed run draws what one run would have drawn.
        # Processes draw for different items.
        drawn = (self.options.seed, self.current_epoch, *([self.global_rank] if self.global_rank else []))
        state = np.random.SeedSequence(drawn).generate_state(1)
        torch.manual_seed(int(state[0]))

    def mean_loss(self, total: Tensor, weight: Tensor, size: int, name: str = "train_loss") -> Tensor:
        """Compute the mean loss of a batch and log the epoch's; several processes share a batch.

        Args:
            total: Summed loss of this part.
            weight: What the sum is divided by: number of targets of this part, or their summed weights.
            size: Items of this part, by which an epoch's mean weights its batches.
            name: What the log calls it.

        Returns:
            A loss whose gradient, averaged over all processes, is that of the mean over the whole batch.
        """
        processes = self.trainer.world_size
        items = torch.stack([weight.detach(), torch.full_like(weight, size)])
        if processes > 1:
            torch.distributed.all_reduce(items)
        whole = total / (items[0] + (items[0] == 0))  # without a target the sum is 0
        if processes == 1:
            self.log_loss(whole, size, name)
            return whole
        # The mean over all processes by their sizes is the loss of the whole batch. Lightning rounds sums of
        # sizes down to whole numbers after it has divided them by the number of processes.
        self.log_loss(whole * items[1] / max(size, 1), size * processes, name)
        # A part without items uses not all weights, and the others would wait for their gradients.
        unused = sum(weight.sum() for weight in self.parameters() if weight.requires_grad)
        return processes * whole + 0 * unused

    def gathered(self, parts: list[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        """Arrays of all batches of an epoch, in the order of their items, in every process.

        Args:
            parts: Of each batch the arrays of this process's part.
        """
        each = [parts]
        if self.trainer.world_size > 1:
            each = [[] for _ in range(self.trainer.world_size)]
            torch.distributed.all_gather_object(each, parts)
        batches = chain.from_iterable(zip(*each, strict=True))
        return [np.concatenate(arrays) for arrays in zip(*batches, strict=True)]

    def log_loss(self, loss: Tensor, size: int, name: str = "train_loss") -> None:
        """Tell the loss of a batch of ``size`` items: an epoch's is the mean over all items."""
        shown = name == "train_loss"
        self.log(
            name,
            loss.detach(),
            on_step=False,
            on_epoch=True,
            prog_bar=shown,
            batch_size=size,
            sync_dist=self.trainer.world_size > 1,
        )

    def log_score(self, score: float) -> None:
        """Tell the score of an epoch's validation."""
        self.log(f"valid_{self.metric}", score, prog_bar=True)

    def adam(self, parameters: Sequence[Tensor], kind: type[Any] = torch.optim.Adam, **options: Any) -> Any:
        """Adam that updates all weights in one pass, the faster way, where that can be done.

        torch reads and writes the memory of a fused parameter as if it had no gaps, and Lightning clips no
        gradients of fused optimizers under mixed precision. Lazy parameters have no memory yet.
        """
        mixed = self.options.precision in ("16-mixed", "bf16-mixed", "16", "bf16")
        fused = not mixed and all(not is_lazy(one) and one.is_contiguous() for one in parameters)
        return kind(parameters, lr=self.options.lr, fused=fused, **options)
