"""The choice among scored candidates, and the gradients that it lets through."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from wlkernelnn.utils.checks import check_one_of

from .space import rounding

CHOICES = ("softmax", "straight_through", "hard")


class Chosen(NamedTuple):
    """The nodes ``[B, p]`` chosen for B strings, which candidates have the highest score ``[B]``, and, if
    asked for, how much higher it is than the runner-up's ``[B]``, infinite where there is none.
    """

    node: Tensor
    best: Tensor
    gap: Tensor | None


@dataclass(frozen=True)
class Choice:
    r"""How a node comes from candidates v with scores α. The tree always has the best one, :math:`v^*`.

    Args:
        how: ``"softmax"``: the node is :math:`\sum_v \mathrm{softmax}(\alpha / \tau)_v v`;
            ``"straight_through"``: it is :math:`v^*`, and the scores have the gradient of that sum, so that
            candidates too learn to be chosen; ``"hard"``: it is :math:`v^*`, and the scores have none.
        temperature: τ.
        gaps: Whether to look for the runner-up.
    """

    how: str = "hard"
    temperature: float = 1.0
    gaps: bool = False

    def __post_init__(self) -> None:
        check_one_of("choice", self.how, CHOICES)
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")

    @property
    def learns(self) -> bool:
        """Whether scores have gradients of the node, and candidates by them: else the best one alone has."""
        return self.how != "hard"

    def __call__(
        self, scores: Tensor, blocks: Sequence[Tensor], vectors: Callable[[Tensor], Tensor]
    ) -> Chosen:
        """Choose.

        Args:
            scores: ``[B, C]``, −∞ for candidates that are not to be chosen.
            blocks: The candidates, ``[B, C_k, p]`` with ΣC_k = C; not looked at for ``"hard"``.
            vectors: Candidates ``[B, K, p]`` by their indices ``[B, K]``.
        """
        index = scores.argmax(1)
        best = vectors(index.unsqueeze(1)).squeeze(1)
        gap = self._gap(scores, index, best.detach(), vectors) if self.gaps else None
        if self.how == "hard":
            return Chosen(best, index, gap)
        weights = torch.softmax(scores / self.temperature, 1).split([block.size(1) for block in blocks], 1)
        through = self.how == "straight_through"
        parts = [
            weight.unsqueeze(1) @ (block.detach() if through else block)
            for weight, block in zip(weights, blocks, strict=True)
        ]
        mean = torch.stack(parts).sum(0).squeeze(1).to(best.dtype)
        # The best candidate, and to the scores the gradient of the mean.
        return Chosen(best + (mean - mean.detach()) if through else mean, index, gap)

    @staticmethod
    def _gap(scores: Tensor, index: Tensor, best: Tensor, vectors: Callable[[Tensor], Tensor]) -> Tensor:
        """α(c*) − α(c**), where c** is the best that is no copy of c*."""
        highest = scores.gather(1, index.unsqueeze(1)).squeeze(1)
        num_candidates, looked_at = scores.size(1), 0
        with torch.no_grad():
            while looked_at < num_candidates:
                # Most runners-up are among the first few.
                looked_at = min(max(8, 4 * looked_at), num_candidates)
                order = scores.topk(looked_at, 1).indices
                other = ~copies(vectors(order), best.unsqueeze(1))
                if other.any(1).all():
                    break
        runner_up = order.gather(1, other.byte().argmax(1, keepdim=True))
        gap = highest - scores.gather(1, runner_up).squeeze(1)
        return gap.masked_fill(~other.any(1), torch.inf)


def copies(vectors: Tensor, others: Tensor) -> Tensor:
    """Where vectors ``[…, p]`` are the same but for rounding, ``[…]``."""
    allowed = rounding(vectors.dtype) * (1 + others.abs())
    return ((vectors - others).abs() <= allowed).all(-1)
