"""The training of AWD-LSTM: random stretches, regularised activations, and averages of the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from wlkernelnn.datasets import BPTTLoader, Corpus, RandomBPTTLoader
from wlkernelnn.sequence import LanguageModel, detached
from wlkernelnn.training.loop import FitResult, train_module
from wlkernelnn.training.options import LoopOptions

from .language import TextModule
from .scores import negative_log_likelihood

# Streams that the validation part is cut into, as the authors' release does.
VALIDATION_STREAMS = 10


@dataclass
class AWDOptions(LoopOptions):
    """Options of :func:`fit_awd`; the defaults are the Penn Treebank's in the release of Merity et al. 2018.

    Args:
        batch_size: Streams that the text is cut into.
        bptt: The usual number of tokens of each stream that gradients go back through; a stretch of T tokens
            has the learning rate lr · T / bptt.
        weight_decay: Of all weights.
        activation: α, how much the mean square of the output that the softmax sees counts (AR).
        slowness: β, how much the mean square of the output's change from token to token counts (TAR).
        nonmonotone: n: averaging begins after an epoch whose validation perplexity is worse than the best of
            those at least n + 1 epochs before.

    The other options are those of :class:`LoopOptions`.
    """

    epochs: int = 500
    gradient_clip: float = 0.25
    batch_size: int = 20
    bptt: int = 70
    lr: float = 30.0
    weight_decay: float = 1.2e-6
    activation: float = 2.0
    slowness: float = 1.0
    nonmonotone: int = 5


def fit_awd(
    model: LanguageModel,
    corpus: Corpus,
    options: AWDOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> FitResult:
    r"""Train ``model`` in place by SGD, and by averages of its weights once that helps (NT-ASGD).

    .. math::
        L = -\frac{1}{BT} \sum \log P(x_{t+1} \mid x_1 … x_t)
            + \alpha \, \overline{(m \odot h[t])^2} + \beta \, \overline{(h[t] - h[t-1])^2}

    with h what the encoder writes, m the mask of its dropout and means over all values (`"Regularizing and
    Optimizing LSTM Language Models" <https://arxiv.org/abs/1708.02182>`_, Merity et al. 2018). When the
    validation perplexity stops falling (see :class:`AWDOptions`), the mean of the weights after every step
    from then on is what is scored and kept; SGD itself goes on as it was. Afterwards the model holds the
    weights of the best validation perplexity.

    Arguments and errors are those of :func:`~wlkernelnn.training.fit_language_model`.
    """
    options = options or AWDOptions()
    module = _AWDModule(model, corpus, options)
    result = train_module(
        module,
        module.batches,
        BPTTLoader(corpus.valid, VALIDATION_STREAMS, options.bptt),
        origin={"corpus": corpus, "network": model},
        directory=directory,
        resume=resume,
        progress=progress,
    )
    model.load_state_dict(module.scored.state_dict())
    return result


def slowness(h: Tensor) -> Tensor:
    """The mean square of h[t] − h[t−1] of ``[B, T, d]``; 0 of a single token."""
    change = h[:, 1:] - h[:, :-1]
    return change.square().sum() / max(change.numel(), 1)


def stopped_falling(scores: Sequence[float], nonmonotone: int) -> bool:
    """Whether the last score is worse than the best of those at least ``nonmonotone + 1`` before it."""
    *before, last = scores
    return last > min(before[: max(0, len(before) - nonmonotone)], default=float("inf"))


class _AWDModule(TextModule):
    """Trains a language model, and averages its weights once its validation stops improving."""

    def __init__(self, model: LanguageModel, corpus: Corpus, options: AWDOptions) -> None:
        super().__init__(model, corpus, options)
        self.batches = RandomBPTTLoader(corpus.train, options.batch_size, options.bptt, options.seed)
        # The mean of the weights (torch.optim.ASGD has it too, but takes a learning rate one step late).
        self.averaged = AveragedModel(model)
        self._scores: list[float] = []
        self._averaging = False

    @property
    def scored(self) -> torch.nn.Module:
        return self.averaged.module if self.averaged.n_averaged > 0 else self.model

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        lr = self.options.lr * batch[0].size(1) / self.options.bptt
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = lr

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        inputs, targets = batch
        h, state = self.model.read(inputs, state=self._state)
        self._state = detached(state)
        dropped = self.model.drop(h)
        nll = negative_log_likelihood(self.model.predict(dropped), targets)
        self.log_loss(nll / targets.numel(), targets.numel())
        options = self.options
        penalty = options.activation * dropped.square().mean() + options.slowness * slowness(h)
        return nll / targets.numel() + penalty

    def on_train_batch_end(self, outputs: Any, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        if self._averaging:
            self.averaged.update_parameters(self.model)

    def on_validation_epoch_end(self) -> None:
        super().on_validation_epoch_end()
        self.log("averaged_steps", float(self.averaged.n_averaged))
        self._scores.append(sum(map(float, self._nll)))
        self._averaging = self._averaging or stopped_falling(self._scores, self.options.nonmonotone)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["awd"] = (self._scores, self._averaging, self.batches.epoch)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # The epoch too: Lightning asks for the first stretch before it says which epoch it is.
        self._scores, self._averaging, self.batches.epoch = checkpoint["awd"]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        options = self.options
        return torch.optim.SGD(self.model.parameters(), lr=options.lr, weight_decay=options.weight_decay)
