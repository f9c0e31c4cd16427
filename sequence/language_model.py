"""Language models: what token comes next."""

from __future__ import annotations

import torch
from torch import Tensor

from .string_model import State, StringModel
from .tokens import check_tokens


class LanguageModel(torch.nn.Module):
    r"""Embeddings, a sequence model, and a softmax over all tokens.

    .. math::
        P(x_{t+1} \mid x_1 … x_t) = \mathrm{softmax}(E \, h[t] + b)

    Args:
        num_tokens: Size of the vocabulary.
        encoder: The sequence model, with ``in_channels`` the width of the embeddings.
        dropout: Probability of dropping a value of the embeddings, and of the encoder's output.
        tied: E is the matrix of the embeddings (Press & Wolf 2016).

    Shapes:
        - input: tokens ``[N]`` with ``ptr [B+1]``, or ``[B, T]``; the encoder's state
        - output: logits ``[N, num_tokens]`` or ``[B, T, num_tokens]``, and the state at the last tokens

    Raises:
        ValueError: ``tied`` and the encoder's two widths differ, or an argument is out of its range.
        IndexError: A token is not in [0, num_tokens).
    """

    def __init__(
        self, num_tokens: int, encoder: StringModel, dropout: float = 0.0, tied: bool = True
    ) -> None:
        super().__init__()
        if num_tokens < 1:
            raise ValueError(f"num_tokens must be positive, got {num_tokens}")
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        if tied and encoder.in_channels != encoder.out_channels:
            raise ValueError(
                "tied embeddings are as wide as what the encoder reads and writes: "
                f"got an encoder from {encoder.in_channels} to {encoder.out_channels}"
            )
        self.embedding = torch.nn.Embedding(num_tokens, encoder.in_channels)
        self.encoder = encoder
        # Tied, E has one name alone: files of weights know no two names of one tensor.
        self.head = None if tied else torch.nn.Linear(encoder.out_channels, num_tokens)
        self.bias = torch.nn.Parameter(torch.zeros(num_tokens)) if tied else None
        self.dropout = torch.nn.Dropout(dropout)

    def forward(
        self, tokens: Tensor, ptr: Tensor | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        check_tokens(tokens, self.embedding.num_embeddings)
        x = self.dropout(self.embedding(tokens))
        h, state = self.encoder(x, ptr, state)
        h = self.dropout(h)
        if self.head is None:
            return torch.nn.functional.linear(h, self.embedding.weight, self.bias), state
        return self.head(h), state
