"""Language models: what token comes next."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.datasets.graphs.arrays import readable
from wlkernelnn.ops.string.steps import Pointers
from wlkernelnn.sequence.graphs.reading import opened, with_tokens
from wlkernelnn.sequence.layers.dropout import locked_dropout
from wlkernelnn.sequence.layers.string_model import State, StringModel, learn_width
from wlkernelnn.sequence.layers.string_rnn import Bidirectional
from wlkernelnn.sequence.layers.tokens import Tokens, check_tokens
from wlkernelnn.utils.checks import check_count, check_dropout, check_finite
from wlkernelnn.utils.configured import Configured
from wlkernelnn.utils.modes import evaluating


def check_drawing(temperature: float, top_k: int | None) -> None:
    """Refuse a temperature or a number of tokens to draw from that cannot be."""
    check_finite("temperature", temperature)
    if temperature < 0:
        raise ValueError(f"temperature must be at least 0, got {temperature!r}")
    if top_k is not None:
        check_count("top_k", top_k)


class LanguageModel(Configured, torch.nn.Module):
    r"""Embeddings, a sequence model, and a softmax over all tokens.

    .. math::
        P(x_{t+1} \mid x_1 … x_t) = \mathrm{softmax}(U \, h[t] + b)

    Args:
        num_tokens: Size of the vocabulary.
        encoder: The sequence model, with ``in_channels`` the width of the embeddings; with −1 that is its
            ``out_channels``.
        dropout: Probability of dropping a value of the embeddings, and of the encoder's output; a pair if the
            two differ.
        tied: U is the matrix of the embeddings (Press & Wolf 2016), whose vectors then begin with a length of
            about 1.
        low_rank: U = A E (Liang et al. 2019, section 2): E projects what the encoder writes to j values, A
            is ``[num_tokens, j]``. ``True`` takes the embeddings' width for j, and their matrix for A if
            ``tied``; untied, j may be given.
        locked: Dropout drops the same values at all tokens of a string.
        word_dropout: Probability of dropping a token of the vocabulary from the embeddings, wherever it
            stands in a batch (Gal & Ghahramani 2016).

    Shapes:
        - input: tokens ``[N]`` with ``ptr [B+1]``, or ``[B, T]``, or a PyG ``Data`` or ``Batch`` of path
          graphs with tokens ``x [N]``; the encoder's state
        - output: logits ``[N, num_tokens]`` or ``[B, T, num_tokens]``, and the state at the last tokens

    Raises:
        ValueError: ``tied`` without ``low_rank`` and the encoder's two widths differ, ``tied`` with a number
            for ``low_rank``, the encoder reads in both directions, or an argument is out of its range.
        IndexError: A token is not in [0, num_tokens).

    A forward pass is :meth:`read`, :meth:`drop` and :meth:`predict`, for losses that look at what is between.
    """

    def __init__(
        self,
        num_tokens: int,
        encoder: StringModel,
        dropout: float | Sequence[float] = 0.0,
        tied: bool = True,
        low_rank: bool | int = False,
        locked: bool = False,
        word_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_count("num_tokens", num_tokens)
        if any(isinstance(part, Bidirectional) for part in encoder.modules()):
            raise ValueError("the encoder reads from the right too: it would see the token to predict")
        both = tuple(dropout) if isinstance(dropout, Sequence) else (dropout, dropout)
        if len(both) != 2:
            raise ValueError(f"dropout must be a number or a pair of numbers, got {dropout!r}")
        for name, value in (("dropout", both[0]), ("dropout", both[1]), ("word_dropout", word_dropout)):
            check_dropout(value, name)
        width = encoder.out_channels if encoder.in_channels == -1 else encoder.in_channels
        if tied and not low_rank and width != encoder.out_channels:
            got = f"an encoder from {encoder.in_channels} to {encoder.out_channels}"
            raise ValueError(f"tied embeddings need an encoder of one width, or low_rank=True, got {got}")
        rank = width if low_rank else encoder.out_channels
        if not isinstance(low_rank, bool):
            rank = check_count("low_rank", low_rank)
            if tied:
                raise ValueError(f"low_rank={low_rank} needs tied=False: tied, A is the embeddings' matrix")
        self.embedding = torch.nn.Embedding(num_tokens, width)
        if tied:  # vectors of length 1 or so: the softmax begins near the uniform one
            torch.nn.init.normal_(self.embedding.weight, std=width**-0.5)
        learn_width(encoder, width)
        self.encoder = encoder
        self.projection = torch.nn.Linear(encoder.out_channels, rank, bias=False) if low_rank else None
        # Tied, U has one name alone: files of weights know no two names of one tensor.
        self.head = None if tied else torch.nn.Linear(rank, num_tokens)
        self.bias = torch.nn.Parameter(torch.zeros(num_tokens)) if tied else None
        self.dropouts = both
        self.locked = locked
        self.word_dropout = word_dropout

    def forward(
        self, tokens: Tokens | Data, ptr: Pointers | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        h, state = self.read(tokens, ptr, state)
        _, _, ptr = opened(type(self).__name__, tokens, ptr)
        return self.predict(self.drop(h, ptr)), state

    def read(
        self, tokens: Tokens | Data, ptr: Pointers | None = None, state: State | None = None
    ) -> tuple[Tensor, State]:
        """What the encoder writes, ``[…, out_channels]``, and the state."""
        graph, tokens, ptr = opened(type(self).__name__, tokens, ptr, per_string=self.locked)
        tokens = check_tokens(type(self).__name__, tokens, ptr, self.embedding)
        x = self.embedding(tokens)
        if self.training and self.word_dropout:
            kept = x.new_ones(self.embedding.num_embeddings, 1)
            x = x * torch.nn.functional.dropout(kept, self.word_dropout)[tokens]
        x = self._dropped(x, ptr, self.dropouts[0])
        inputs = (x, ptr) if graph is None else (with_tokens(graph, x), None)
        return self.encoder(*inputs, state)

    def drop(self, h: Tensor, ptr: Pointers | None = None) -> Tensor:
        """Dropout of what the encoder wrote."""
        return self._dropped(h, ptr, self.dropouts[1])

    def predict(self, h: Tensor) -> Tensor:
        """Logits ``[…, num_tokens]`` from what the encoder wrote."""
        if self.projection is not None:
            h = self.projection(h)
        if self.head is None:
            return torch.nn.functional.linear(h, self.embedding.weight, self.bias)
        return self.head(h)

    @torch.no_grad()
    def generate(
        self,
        prompt: Tokens,
        max_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        r"""Draw tokens one by one, each from :math:`P(x_{t+1} \mid x_1 … x_t)^{1/\tau}`, normalised.

        Args:
            prompt: The tokens before, at least one: ``[T]``, or ``[B, T]`` of several texts.
            max_tokens: Tokens to draw.
            temperature: τ; with 0 the most probable token is taken.
            top_k: Draw from so many most probable tokens; default from all.
            generator: What draws; default torch's own.

        Returns:
            The tokens drawn, int64 ``[max_tokens]`` or ``[B, max_tokens]``. The model is used in evaluation
            mode.

        Raises:
            ValueError: The prompt is empty, or an argument is out of its range.
            IndexError: A token is not in [0, num_tokens).
        """
        check_count("max_tokens", max_tokens, least=0)
        check_drawing(temperature, top_k)
        if top_k is not None:
            top_k = min(int(top_k), self.embedding.num_embeddings)
        tokens = torch.as_tensor(readable(prompt), device=self.embedding.weight.device)
        if tokens.dim() not in (1, 2) or not tokens.size(-1):
            raise ValueError(f"prompt must be tokens [T] or [B, T], T at least 1, got {list(tokens.shape)}")
        last, state = tokens.view(-1, tokens.size(-1)), None
        drawn = [last[:, :0].long()]
        with evaluating(self):
            for _ in range(max_tokens):
                h, state = self.read(last, state=state)
                logits = self.predict(h[:, -1]).float()
                if top_k is not None:
                    most = logits.topk(top_k)
                    logits = torch.full_like(logits, -torch.inf).scatter(1, most.indices, most.values)
                if temperature:
                    scaled = (logits.double() - logits.amax(1, keepdim=True)) / temperature
                    last = scaled.softmax(1).float().multinomial(1, generator=generator)
                else:
                    last = logits.argmax(1, keepdim=True)
                drawn.append(last)
        return torch.cat(drawn, 1).view(*tokens.shape[:-1], max_tokens)

    def _dropped(self, x: Tensor, ptr: Pointers | None, dropout: float) -> Tensor:
        if self.locked and self.training:
            return locked_dropout(x, ptr, dropout)
        return torch.nn.functional.dropout(x, dropout, self.training)
