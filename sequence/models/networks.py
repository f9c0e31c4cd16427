"""Classification of whole strings, of vectors or of tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch_geometric.data import Data

from wlkernelnn.blocks.activation import activation
from wlkernelnn.ops.graph.segments import segment_sum
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.sequence.graphs.reading import opened, with_tokens
from wlkernelnn.sequence.layers.string_model import StringModel, learn_width
from wlkernelnn.sequence.layers.tokens import Tokens, check_tokens
from wlkernelnn.utils.checks import check_count, check_dropout
from wlkernelnn.utils.configured import Configured


class StringNetwork(Configured, torch.nn.Module):
    r"""A sequence model, the mean over the tokens, and one or two linear layers.

    Args:
        encoder: The sequence model.
        num_classes: Number of classes.
        dropout: Probability of dropping a value before each linear layer.
        bias: Whether the linear layers have one.
        hidden_channels: Width between two linear layers; by default there is one.
        act: What follows the first of two.

    Shapes:
        - input: x ``[N, d]`` with ``ptr [B+1]``, or ``[B, T, d]``, or a PyG ``Data`` or ``Batch`` of graphs
          that the encoder reads, with such ``x``; d is the ``in_channels`` of the encoder
        - output: logits ``[B, num_classes]``; the mean of an empty string is 0

    Raises:
        ValueError: An argument is out of its range.
    """

    head: torch.nn.Module

    def __init__(
        self,
        encoder: StringModel,
        num_classes: int,
        dropout: float = 0.0,
        bias: bool = True,
        hidden_channels: int | None = None,
        act: str | torch.nn.Module | None = "relu",
    ) -> None:
        super().__init__()
        check_dropout(dropout)
        check_count("num_classes", num_classes)
        if hidden_channels is not None:
            check_count("hidden_channels", hidden_channels)
        self.num_classes = num_classes
        self.encoder = encoder
        self.dropout = torch.nn.Dropout(dropout)
        if hidden_channels is None:
            self.head = torch.nn.Linear(encoder.out_channels, num_classes, bias=bias)
        else:
            self.head = torch.nn.Sequential(
                torch.nn.Linear(encoder.out_channels, hidden_channels, bias=bias),
                activation(act),
                torch.nn.Dropout(dropout),
                torch.nn.Linear(hidden_channels, num_classes, bias=bias),
            )

    def forward(self, x: Tensor | Data, ptr: Pointers | None = None) -> Tensor:
        if isinstance(x, PackedSequence):
            raise TypeError(f"{type(self).__name__} reads no PackedSequence: path_graph makes a Data of it")
        h, _ = self.encoder(x, ptr)
        _, _, ptr = opened(type(self).__name__, x, ptr, per_string=True)
        if ptr is None:
            mean = h.mean(1) if h.size(1) else h.new_zeros(h.size(0), h.size(2))
        else:
            ptr = torch.as_tensor(ptr, device=h.device).long()
            lengths = ptr.diff()
            string = torch.arange(lengths.numel(), device=ptr.device).repeat_interleave(lengths)
            mean = segment_sum(h, ptr, string) / lengths.clamp(min=1).unsqueeze(1)
        return self.head(self.dropout(mean))


class TextNetwork(StringNetwork):
    r"""Embeddings, a sequence model, the mean over the tokens, and one or two linear layers.

    Args:
        embedding: Vectors of the tokens; frozen ones stay as they are.
        encoder: The sequence model, with ``in_channels`` the width of the embeddings, or −1.
        num_classes, bias, hidden_channels, act: See :class:`StringNetwork`.
        dropout: Probability of dropping a value before each linear layer, and of the embeddings.
        embedding_dropout: Probability of dropping a value of the embeddings, if it is another.

    Shapes:
        - input: tokens ``[N]`` with ``ptr [B+1]``, or ``[B, T]``, or a PyG ``Data`` or ``Batch`` of graphs
          that the encoder reads, with tokens ``x [N]``
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
        width = embedding.embedding_dim
        if encoder.in_channels not in (-1, width):
            raise ValueError(f"embeddings of {width} values for an encoder of {encoder.in_channels}")
        if embedding_dropout is None:
            embedding_dropout = dropout
        check_dropout(embedding_dropout, "embedding_dropout")
        learn_width(encoder, width)
        self.embedding = embedding
        self.embedding_dropout = torch.nn.Dropout(embedding_dropout)

    def forward(self, tokens: Tokens | Data, ptr: Pointers | None = None) -> Tensor:
        name = type(self).__name__
        graph, tokens, ptr = opened(name, tokens, ptr)
        x = self.embedding_dropout(self.embedding(check_tokens(name, tokens, ptr, self.embedding)))
        return super().forward(x, ptr) if graph is None else super().forward(with_tokens(graph, x))
