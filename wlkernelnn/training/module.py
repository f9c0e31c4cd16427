"""The Lightning module behind every training: seeds, losses and scores by name, Adam."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from .options import LoopOptions


class TrainedModule(pl.LightningModule):
    """Trains a model: a subclass says the steps, and calls :meth:`log_loss` and :meth:`log_score`.

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

    def on_train_epoch_start(self) -> None:
        # Dropout depends on the seed and the epoch alone: a resumed run draws what one run would have drawn.
        state = np.random.SeedSequence((self.options.seed, self.current_epoch)).generate_state(1)
        torch.manual_seed(int(state[0]))

    def log_loss(self, loss: Tensor, size: int, name: str = "train_loss") -> None:
        """Tell the loss of a batch of ``size`` items: an epoch's is the mean over its items."""
        shown = name == "train_loss"
        self.log(name, loss.detach(), on_step=False, on_epoch=True, prog_bar=shown, batch_size=size)

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
