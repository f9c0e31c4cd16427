"""RRNN whose trees are given, not searched: the GRU's, at every token or at all but a few."""

from __future__ import annotations

import torch

from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn import GRU
from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown


class GrownGRU(RRNN):
    """Every tree is the GRU's, in validation too."""

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        return self.follow(GRU, pool)


class MistakenGRU(RRNN):
    """Trees are the GRU's, but for a share of the tokens, whose tree is drawn from all that can be grown."""

    mistaken = 0.0

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        drawn = Pool(self.space, self.tuples, torch.stack(pool.nodes, 1))
        size, device = len(pool.nodes[0]), pool.nodes[0].device
        numbers = []
        for k in range(self.ends[-1]):
            count = len(drawn.nodes) * (len(drawn.nodes) - 1) // 2 * self.space.per_pair
            numbers.append(torch.randint(count, (size, 1), device=device))
            node = drawn.make(numbers[-1]).squeeze(1)
            drawn.append(node if self.norm is None else self.norm(node, k))
        right = self.follow(GRU, pool)
        wrong = torch.rand(size, 1, device=device) < self.mistaken
        nodes = torch.stack(drawn.nodes[-self.ends[-1] :], 1)
        return Grown(
            torch.where(wrong.unsqueeze(2), nodes, right.nodes),
            torch.where(wrong, torch.cat(numbers, 1), right.numbers),
            right.gaps,
        )
