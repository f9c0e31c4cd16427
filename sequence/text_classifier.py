"""Classification of whole strings."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.ops.neighbor_sum.segments import segment_sum

from .string_model import StringModel
from .tokens import check_tokens


class TextClassifier(torch.nn.Module):
    r"""Embeddings, a sequence model, the mean over the tokens, and a linear layer.

    Args:
        embedding: Vectors of the tokens; frozen ones stay as they are.
        encoder: The sequence model, with ``in_channels`` the width of the embeddings.
        num_classes: Number of classes.
        dropout: Probability of dropping a value of the embeddings, and of the mean.
        bias: Whether the linear layer has one.

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
    ) -> None:
        super().__init__()
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        if embedding.embedding_dim != encoder.in_channels:
            raise ValueError(
                f"embeddings of {embedding.embedding_dim} values for an encoder of {encoder.in_channels}"
            )
        self.num_classes = num_classes
        self.embedding = embedding
        self.encoder = encoder
        self.head = torch.nn.Linear(encoder.out_channels, num_classes, bias=bias)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, tokens: Tensor, ptr: Tensor | None = None) -> Tensor:
        check_tokens(tokens, self.embedding.num_embeddings)
        if ptr is None:
            if tokens.dim() != 2:
                raise ValueError(
                    f"{type(self).__name__} needs tokens of shape [B, T], or [N] with ptr, "
                    f"got {list(tokens.shape)} without ptr"
                )
            ptr = torch.arange(tokens.size(0) + 1, device=tokens.device) * tokens.size(1)
            tokens = tokens.reshape(-1)
        h, _ = self.encoder(self.dropout(self.embedding(tokens)), ptr)
        lengths = ptr.diff()
        string = torch.arange(lengths.numel(), device=ptr.device).repeat_interleave(lengths)
        mean = segment_sum(h, ptr, string) / lengths.clamp(min=1).unsqueeze(1)
        return self.head(self.dropout(mean))
