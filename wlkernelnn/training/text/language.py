"""Train and score language models, with the state carried from stretch to stretch of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.datasets import BPTTLoader, Corpus
from wlkernelnn.sequence import LanguageModel, detached
from wlkernelnn.training.loop import FitResult, train_module
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.options import DecayOptions, LoopOptions
from wlkernelnn.utils.modes import evaluating

from .scores import perplexity_of

# Tokens of a text that are scored at once: as many logits as vocabulary and memory allow.
EVALUATION_LENGTH = 512


@dataclass
class LanguageOptions(DecayOptions):
    """Options of :func:`fit_language_model`; the defaults are those of Lei et al. (2017, section 6.1).

    Args:
        batch_size: Streams that the text is cut into.
        bptt: Tokens of each stream that gradients go back through. The loss is summed over them and averaged
            over the streams.
        lr: Learning rate of SGD.

    The other options are those of :class:`DecayOptions`.
    """

    batch_size: int = 32
    bptt: int = 35
    lr: float = 1.0
    lr_decay: float = 0.9
    decay_from: int = 20


def fit_language_model(
    model: LanguageModel,
    corpus: Corpus,
    options: LanguageOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> FitResult:
    """Train ``model`` in place; afterwards it holds the weights of the best validation perplexity.

    The same arguments on the same machine give the same weights, also if training was resumed.

    Args:
        model: The model.
        corpus: Its text.
        options: How to train.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.

    Raises:
        ValueError: The vocabulary is not the model's.
        ValueError, FileExistsError, DivergedError: As of :func:`~wlkernelnn.training.fit`.
    """
    options = options or LanguageOptions()
    return train_module(
        _LanguageModule(model, corpus, options),
        BPTTLoader(corpus.train, options.batch_size, options.bptt),
        BPTTLoader(corpus.valid, 1, EVALUATION_LENGTH),
        origin={"corpus": corpus},
        directory=directory,
        resume=resume,
        progress=progress,
    )


@torch.no_grad()
def perplexity(model: LanguageModel, tokens: Tensor | np.ndarray | Sequence[int]) -> float:
    r""":math:`\exp(-\frac{1}{N-1} \sum_{t=2}^{N} \log P(x_t \mid x_1 … x_{t-1}))` of a text.

    The first token has no context and is no target.

    Args:
        model: The model, used in evaluation mode on the device where it is.
        tokens: Token ids ``[N]``, N ≥ 2, any integers in a tensor, an array or a list.
    """
    device = model.embedding.weight.device
    state, total = None, 0.0
    loader = BPTTLoader(tokens, 1, EVALUATION_LENGTH)
    with evaluating(model):
        for inputs, targets in loader:
            logits, state = model(inputs.to(device), state=state)
            total += float(negative_log_likelihood(logits, targets.to(device)))
    return perplexity_of(total / loader.num_targets)


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed over all tokens."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")


class TextModule(TrainedModule):
    """Carries the state along a text, in training and where it is scored."""

    def __init__(self, model: LanguageModel, corpus: Corpus, options: LoopOptions) -> None:
        super().__init__(model, options, "perplexity", maximize=False)
        known, trained = model.embedding.num_embeddings, len(corpus.vocabulary)
        if trained != known:
            raise ValueError(f"the corpus has {trained:,} different tokens, the model {known:,}")
        self._state: Any = None
        self._nll, self._targets = 0.0, 0

    @property
    def scored(self) -> torch.nn.Module:
        """The model that is validated."""
        return self.model

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        self._state = None

    def on_validation_epoch_start(self) -> None:
        # Training of this epoch is over: its state is not needed any more.
        self._state, self._nll, self._targets = None, 0.0, 0

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        logits, self._state = self.scored(inputs, state=self._state)
        self._nll += float(negative_log_likelihood(logits, targets))
        self._targets += targets.numel()

    def on_validation_epoch_end(self) -> None:
        self.log_score(perplexity_of(self._nll / self._targets))


class _LanguageModule(TextModule):
    """Trains a language model."""

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        inputs, targets = batch
        logits, state = self.model(inputs, state=self._state)
        self._state = detached(state)
        nll = negative_log_likelihood(logits, targets)
        self.log_loss(nll / targets.numel(), targets.numel())
        return nll / len(targets)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.options.lr)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.options.lr_factor)]
