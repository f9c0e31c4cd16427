"""The recursive-recurrent neural network whose trees are all the GRU's."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown, grown
from wlkernelnn.sequence.rrnn.trees.cells import GRU

from .tree_model import TreeModel


class RRNNGRU(TreeModel):
    r"""RRNN-GRU of Qian et al. (section 5): the tree is the GRU's, and each node chooses its tuple.

    .. math::
        r_t = \sigma(x_t \oplus h_{t-1}) \quad z_t = \sigma(x_t \oplus h_{t-1}) \quad
        \tilde h_t = \tanh(x_t \oplus (h_{t-1} \otimes r_t)) \quad
        h_t = (h_{t-1} \otimes z_t) \oplus ((1 - (0 \oplus z_t)) \otimes \tilde h_t)

    where each :math:`a \oplus b` is :math:`L_r a + R_r b + b_r` and each :math:`a \otimes b` is
    :math:`L_r a \odot R_r b + b_r`, of the tuple with the highest score, the identity among them. As in
    Algorithm 1 no two nodes are made alike: :math:`z_t` has not the tuple of :math:`r_t`.

    Args:
        in_channels: Width of the tokens, −1 for lazy. Where it is not ``out_channels``, or lazy, tokens go
            through a linear layer first.
        out_channels: Width p of the nodes.
        num_tuples: Number of tuples (L, R, b) that are learned.
        hidden_channels, choice, temperature, norm: See :class:`RRNN`.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; ``state
          [1, B, out_channels]``
        - output: h ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.
    """

    made: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        num_tuples: int = 3,
        hidden_channels: int = 64,
        choice: str = "softmax",
        temperature: float = 1.0,
        norm: str | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            GRU.ends,
            num_tuples=num_tuples,
            hidden_channels=hidden_channels,
            choice=choice,
            temperature=temperature,
            norm=norm,
        )
        # The number of every node with every tuple.
        tuples, number = range(self.space.num_tuples), self.space.number
        made = [[number(node._replace(tuple_index=r)) for r in tuples] for node in GRU.nodes]
        self.register_buffer("made", torch.tensor(made), persistent=False)

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        numbers: list[Tensor] = []
        gaps: list[Tensor | None] = []
        for k, (node, made) in enumerate(zip(GRU.nodes, self.made, strict=True)):
            vectors = pool.with_tuples(node)
            scores = self.scorer(vectors if choice.learns else vectors.detach())
            for number in numbers:
                scores = scores.masked_fill(made == number.unsqueeze(1), -torch.inf)
            chosen = choice(scores, [vectors], partial(_rows, vectors))
            pool.append(chosen.node if self.norm is None else self.norm(chosen.node, k))
            numbers.append(made[chosen.best])
            gaps.append(chosen.gap)
        return grown(pool, numbers, gaps)


def _rows(vectors: Tensor, index: Tensor) -> Tensor:
    """Candidates ``[B, K, p]`` of ``[B, C, p]`` by their indices ``[B, K]``."""
    return vectors[torch.arange(vectors.size(0), device=index.device).unsqueeze(1), index]
