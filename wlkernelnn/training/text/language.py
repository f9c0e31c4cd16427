"""Train and score language models, with the state carried from stretch to stretch of a text."""

from __future__ import annotations

import itertools
from operator import itemgetter
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from wlkernelnn.datasets import BPTTLoader, Corpus, PackedStrings
from wlkernelnn.datasets.text.vocabulary import TokenIds as Tokens
from wlkernelnn.datasets.text.vocabulary import as_ids
from wlkernelnn.sequence import LanguageModel
from wlkernelnn.sequence.layers.tokens import check_tokens
from wlkernelnn.training.loop import FitResult, train_module
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.options import LoopOptions
from wlkernelnn.training.string_options import LanguageOptions
from wlkernelnn.utils.modes import evaluating

from .replay import Replay
from .scores import negative_log_likelihood, perplexity_of, single

# Tokens of a text that are scored at once: as many logits as vocabulary and memory allow.
EVALUATION_LENGTH = 512
# The same of strings, which are read at once.
SCORED = 8 * EVALUATION_LENGTH


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
        ValueError: The vocabulary is not the model's, or there are more devices than streams.
        ValueError, FileExistsError, DivergedError: As of :func:`~wlkernelnn.training.fit`.
    """
    options = options or LanguageOptions()
    devices = options.devices * options.num_nodes
    if devices > options.batch_size:
        raise ValueError(f"batch_size={options.batch_size}: {devices} devices need a stream each")
    if devices > 1 and options.cuda_graphs:
        raise ValueError("cuda_graphs=True is for one device")
    return train_module(
        _LanguageModule(model, corpus, options),
        BPTTLoader(corpus.train, options.batch_size, options.bptt),
        BPTTLoader(corpus.valid, 1, EVALUATION_LENGTH, num_replicas=1),  # every process scores all of it
        origin={"corpus": corpus, "network": model},
        directory=directory,
        resume=resume,
        progress=progress,
    )


@overload
def perplexity(model: LanguageModel, tokens: Tokens, ptr: None = None) -> float: ...
@overload
def perplexity(model: LanguageModel, tokens: Tokens, ptr: Tokens) -> Tensor: ...
@torch.no_grad()
def perplexity(model: LanguageModel, tokens: Tokens, ptr: Tokens | None = None) -> float | Tensor:
    r""":math:`\exp(-\frac{1}{N-1} \sum_{t=2}^{N} \log P(x_t \mid x_1 … x_{t-1}))` of a text or of strings.

    The first token has no context and is no target.

    Args:
        model: The model, used in evaluation mode on the device where it is.
        tokens: Token ids ``[N]``, any integers in a tensor, an array or a list: one text, N ≥ 2, or strings
            end to end.
        ptr: Where each of the strings begins, ``[S+1]``.

    Returns:
        Of a text a number; of strings float64 ``[S]``, NaN where a string has less than two tokens.
    """
    if ptr is not None:
        if not len(ptr):
            raise ValueError("ptr: expected where each of the strings begins and the last ends, got nothing")
        strings = PackedStrings(as_ids(tokens).cpu(), as_ids(ptr).cpu(), torch.zeros(len(ptr) - 1))
        return _per_string(model, strings)
    device = model.embedding.weight.device
    state, total = None, 0.0
    check_tokens("perplexity", as_ids(tokens)[None], None, model.embedding)
    loader = BPTTLoader(tokens, 1, EVALUATION_LENGTH, num_replicas=1)
    with evaluating(model):
        for inputs, targets in loader:
            logits, state = model(inputs.to(device), state=state)
            total += float(negative_log_likelihood(logits, targets.to(device)))
    return perplexity_of(total / loader.num_targets)


def _per_string(model: LanguageModel, strings: PackedStrings) -> Tensor:
    """The perplexity of each string, ``[S]``, in batches of at least one string and few tokens."""
    device, lengths = model.embedding.weight.device, strings.lengths
    nll = torch.full((len(strings),), torch.nan, dtype=torch.float64)
    # Long strings alone.
    order = lengths.argsort(stable=True)
    order = order[lengths[order] > 1]
    batch = (lengths[order].cumsum(0) // SCORED).tolist()
    with evaluating(model):
        for _, some in itertools.groupby(zip(batch, order.tolist(), strict=True), key=itemgetter(0)):
            chosen = [position for _, position in some]
            part = strings.select(chosen)
            ids, bounds = part.tokens.long().to(device), part.ptr.to(device)
            h, _ = model.read(ids, bounds)
            # The last token of a string predicts nothing, and nothing predicts the first.
            inner = torch.ones(len(ids), dtype=torch.bool, device=device)
            inner[bounds[1:] - 1] = False
            place = inner.nonzero().view(-1)
            of_string = torch.repeat_interleave(bounds.diff() - 1)
            sums = torch.zeros(len(chosen), dtype=torch.float64, device=device)
            for here, strings_here in zip(place.split(SCORED), of_string.split(SCORED), strict=True):
                each = cross_entropy(single(model.predict(h[here])), ids[here + 1], reduction="none")
                sums.index_add_(0, strings_here, each.double())
            nll[torch.tensor(chosen)] = (sums / (bounds.diff() - 1)).cpu()
    return nll.clamp(max=700.0).exp()


class TextModule(TrainedModule):
    """Carries the state along a text, in training and where it is scored."""

    def __init__(self, model: LanguageModel, corpus: Corpus, options: LoopOptions) -> None:
        super().__init__(model, options, "perplexity", maximize=False)
        known, trained = model.embedding.num_embeddings, len(corpus.vocabulary)
        if trained != known:
            raise ValueError(f"the corpus has {trained:,} different tokens, the model {known:,}")
        self._state: Any = None
        self._nll: list[Tensor] = []
        self._targets = 0

    @property
    def scored(self) -> torch.nn.Module:
        """The model that is validated."""
        return self.model

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        self._state = None

    def on_validation_epoch_start(self) -> None:
        # Training of this epoch is over: its state is not needed any more.
        self._state, self._nll, self._targets = None, [], 0

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        logits, self._state = self.scored(inputs, state=self._state)
        self.count(negative_log_likelihood(logits, targets), targets)

    def count(self, nll: Tensor, targets: Tensor) -> None:
        """Add the summed loss of targets to the score of validation."""
        self._nll.append(nll)  # as a number only later: a GPU goes on
        self._targets += targets.numel()

    def on_validation_epoch_end(self) -> None:
        self.log_score(perplexity_of(sum(map(float, self._nll)) / self._targets))


class _LanguageModule(TextModule):
    """Trains a language model."""

    shares_batches = True

    def __init__(self, model: LanguageModel, corpus: Corpus, options: LanguageOptions) -> None:
        super().__init__(model, corpus, options)
        self._train, self._score = (Replay(model, options.cuda_graphs) for _ in range(2))

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        nll, self._state = self._score(inputs, targets, self._state)
        self.count(nll, targets)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        inputs, targets = batch
        nll, self._state = self._train(inputs, targets, self._state)
        # Summed over the tokens of a stream, and averaged over the streams.
        size = targets.numel()
        return targets.size(1) * self.mean_loss(nll, nll.new_tensor(size), size)

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), lr=self.options.lr)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.options.lr_factor)]
