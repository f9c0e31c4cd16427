"""Networks of strings by the options that runs and estimators take."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.sequence import (
    RKM,
    LanguageModel,
    StringKernelNetwork,
    StringModel,
    StringNetwork,
    StringRNN,
    TextNetwork,
)
from wlkernelnn.training.string_options import StringModelName, StringNetworkOptions
from wlkernelnn.utils.checks import check_count, check_one_of


def encoder(options: StringNetworkOptions, in_channels: int, **of_kernel: Any) -> StringModel:
    """The sequence model.

    Args:
        options: What it is.
        in_channels: Width of the tokens.
        of_kernel: Further arguments of :class:`StringKernelNetwork`.

    Raises:
        ValueError: An option is out of its range.
    """
    check_one_of("model", options.model, get_args(StringModelName))
    for name in ("hidden_channels", "num_layers", "ngram"):
        check_count(name, getattr(options, name))
    if not isinstance(options.bidirectional, bool | np.bool_):
        raise ValueError(f"bidirectional must be True or False, got {options.bidirectional!r}")
    if options.model == "kernel":
        return StringKernelNetwork(
            in_channels,
            options.hidden_channels,
            options.num_layers,
            dropout=options.dropout,
            bidirectional=options.bidirectional,
            ngram=options.ngram,
            decay=options.decay,
            feedback=options.feedback,
            **of_kernel,
        )
    cell = RKM(in_channels, options.hidden_channels, options.model, options.ngram)
    return StringRNN(cell, options.num_layers, options.bidirectional, options.dropout)


def classifier(
    options: StringNetworkOptions,
    num_classes: int,
    *,
    in_channels: int | None = None,
    num_tokens: int | None = None,
    embedding_channels: int = 100,
    vectors: Tensor | None = None,
    freeze: bool = False,
) -> StringNetwork:
    """A classifier of vectors (``in_channels``), or of tokens (all other arguments).

    Args:
        options: The sequence model.
        num_classes: Number of classes.
        in_channels: Width of the vectors.
        num_tokens, embedding_channels: Size of the vocabulary, whose first token is the unknown one, and
            width of the tokens' vectors, which are drawn.
        vectors: The tokens' vectors ``[num_tokens, d]``, instead.
        freeze: They stay as they are.
    """
    of_kernel: dict[str, Any] = {"jumping": "cat", "readout": "sum", "act": "relu"}
    if in_channels is not None:
        return StringNetwork(encoder(options, in_channels, **of_kernel), num_classes, options.dropout)
    if vectors is None:
        assert num_tokens is not None
        embedding = torch.nn.Embedding(num_tokens, embedding_channels)
        torch.nn.init.normal_(embedding.weight, std=0.15)
        with torch.no_grad():
            embedding.weight[0] = 0.0  # the unknown token, which training may never see
    else:
        embedding = torch.nn.Embedding.from_pretrained(vectors.clone(), freeze=freeze)
    sequence = encoder(options, embedding.embedding_dim, **of_kernel)
    return TextNetwork(embedding, sequence, num_classes, options.dropout)


def language_model(options: StringNetworkOptions, num_tokens: int) -> LanguageModel:
    """A language model with one matrix for the vectors of tokens and the softmax."""
    highway = {"highway": True, "act": "tanh"}
    sequence = encoder(options, options.hidden_channels, **highway)
    return LanguageModel(num_tokens, sequence, options.dropout)
