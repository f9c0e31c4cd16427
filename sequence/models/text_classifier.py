"""Classification of whole strings of tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.sequence.layers.string_model import Pointers, StringModel, learn_width
from wlkernelnn.sequence.layers.tokens import Tokens, check_tokens
from wlkernelnn.utils.checks import check_dropout

from .string_classifier import StringClassifier


class TextClassifier(StringClassifier):
    r"""Embeddings, a sequence model, the mean over the tokens, and one or two linear layers.

    Args:
        embedding: Vectors of the tokens; frozen ones stay as they are.
        encoder: The sequence model, with ``in_channels`` the width of the embeddings, or −1.
        num_classes: Number of classes.
        dropout: Probability of dropping a value before each linear layer, and of the embeddings.
        bias: Whether the linear layers have one.
        hidden_channels: Width between two linear layers; by default there is one.
        act: What follows the first of two.
        embedding_dropout: Probability of dropping a value of the embeddings, if it is another.

    Shapes:
        - input: tokens ``[N]`` with ``ptr [B+1]``, or ``[B, T]``
        - output: logits ``[B, num_classes]``; the mean of an empty string is 0

    Raises:
        ValueError: Widths differ, or an argument is out of its range.
        IndexError: A token is not a row of the embeddings.
    """

    def __init__(
        self,
        embedding: torch.nn.Embedding,
        encoder: StringModel,
        num_classes: int,
        dropout: float = 0.0,
        bias: bool = True,
        hidden_channels: int | None = None,
        act: str = "relu",
        embedding_dropout: float | None = None,
    ) -> None:
        super().__init__(encoder, num_classes, dropout, bias, hidden_channels, act)
        if encoder.in_channels not in (-1, embedding.embedding_dim):
            raise ValueError(
                f"embeddings of {embedding.embedding_dim} values for an encoder of {encoder.in_channels}"
            )
        if embedding_dropout is None:
            embedding_dropout = dropout
        check_dropout(embedding_dropout, "embedding_dropout")
        learn_width(encoder, embedding.embedding_dim)
        self.embedding = embedding
        self.embedding_dropout = torch.nn.Dropout(embedding_dropout)

    def forward(self, tokens: Tokens, ptr: Pointers | None = None) -> Tensor:
        tokens = check_tokens(type(self).__name__, tokens, ptr, self.embedding)
        return super().forward(self.embedding_dropout(self.embedding(tokens)), ptr)
