"""The loss of recursive-recurrent networks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.trees.cells import CELLS
from wlkernelnn.sequence.rrnn.trees.distance import ISOMORPHISMS, tree_distances
from wlkernelnn.sequence.rrnn.trees.record import Record
from wlkernelnn.utils.checks import check_one_of


class LossParts(NamedTuple):
    """The loss, and its terms without weights; those of trees are sums over tokens, means over strings."""

    total: Tensor
    distance: Tensor
    margin: Tensor
    norm: Tensor


class TreeLoss(torch.nn.Module):
    r"""The loss (6) of Qian et al., of one batch.

    .. math::
        \lambda_1 \ell + \lambda_2 \min_{\bar T \simeq T^{target}} \mathrm{TD}(T^{pred}, \bar T)
        - \lambda_3 \sum_k \min\{1, (\alpha(c_k^*) - \alpha(c_k^{**})) / M\}
        + \lambda_4 \sum_\phi \|\phi\|^2

    summed over tokens and states, mean over strings. :math:`c_k^{**}` is the best candidate that is neither
    chosen already nor a copy of :math:`c_k^*`. The vectors of the target are made by the model's own tuples,
    in the order of their roles, at the current :math:`x_t, h_{t-1}`, and normalised as its nodes are: a tree
    that is made like the target, in the same rounds, has distance 0 (with batch normalisation in evaluation
    only). No gradients go through them.

    Args:
        cell: The target: ``"gru"``, ``"torch_gru"`` or ``"lstm"``.
        weights: λ1, …, λ4; what has weight 0 is not computed.
        max_margin: M, up to which a margin is rewarded.
        isomorphisms: ``"exact"``, ``"relaxed"`` or ``"expected"``, see :func:`~.distance.tree_distances`.

    Raises:
        ValueError: An argument is out of its range.
    """

    def __init__(
        self,
        cell: str = "gru",
        weights: tuple[float, float, float, float] = (1.0, 1e-3, 1e-3, 1e-5),
        max_margin: float = 1.0,
        isomorphisms: str = "exact",
    ) -> None:
        super().__init__()
        check_one_of("cell", cell, CELLS)
        if len(weights) != 4 or not all(0 <= weight < math.inf for weight in weights):
            raise ValueError(f"weights must be four finite numbers that are not negative, got {weights}")
        if not max_margin > 0:
            raise ValueError(f"max_margin must be positive, got {max_margin}")
        check_one_of("isomorphisms", isomorphisms, ISOMORPHISMS)
        self.cell = CELLS[cell]
        self.weights = tuple(weights)
        self.max_margin = max_margin
        self.isomorphisms = isomorphisms

    def forward(self, loss: Tensor, model: TreeModel, parameters: Iterable[Tensor]) -> LossParts:
        """The loss of what a model has kept of its last forward pass (``keep_trees``).

        Args:
            loss: ℓ: that of the output layer, summed over tokens and mean over strings.
            model: The model.
            parameters: All parameters, those of the output layer as well.

        Raises:
            ValueError: The model has kept no trees, or has not the leaves or the tuples of the target.
        """
        record = model.last_trees
        if record is None:
            raise ValueError("TreeLoss needs trees: set keep_trees before the forward pass over tokens")
        distance = margin = norm = loss.new_zeros(())
        if self.weights[1]:
            distance = self._distance(record, model) / record.num_strings
        if self.weights[2]:
            margin = -(record.gaps / self.max_margin).clamp(max=1).sum() / record.num_strings
        if self.weights[3]:
            norm = torch.stack([parameter.square().sum() for parameter in parameters]).sum()
        terms = zip(self.weights, (loss, distance, margin, norm), strict=True)
        return LossParts(torch.stack([weight * term for weight, term in terms]).sum(), distance, margin, norm)

    def _distance(self, record: Record, model: TreeModel) -> Tensor:
        self.check(model)
        with torch.no_grad():
            copies = model.leaf_of_copy
            first = [copies.index(leaf) for leaf in range(self.cell.num_leaves)]
            leaves = Pool(model.space, model.tuples, record.leaves[:, first].detach())
            target = self.cell.follow(leaves, model.norm)
        states = range(model.num_states)
        distances = [tree_distances(record, self.cell, target, state, self.isomorphisms) for state in states]
        return torch.stack(distances).sum()

    def check(self, model: TreeModel) -> None:
        """Refuse a model that has not the leaves or tuples of the target."""
        cell, tuples = self.cell, model.tuples
        if model.num_states != cell.num_states or model.auxiliary != (0.0,):
            raise ValueError(
                f"the target has {cell.num_states} states and an auxiliary vector of zeros, "
                f"got {model.num_states} and {model.auxiliary}"
            )
        if not tuples.identity or len(tuples) <= cell.num_tuples:
            raise ValueError(
                f"the target needs {cell.num_tuples} tuples and the identity, got {len(tuples.bias)} "
                f"and {'it' if tuples.identity else 'no identity'}"
            )
