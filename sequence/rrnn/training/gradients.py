"""How gradients go through networks of trees: norms over the tokens, and what theorems 7 and 8 ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from wlkernelnn.sequence.layers.string_model import State, StringModel
from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.trees.record import Record
from wlkernelnn.utils.modes import evaluating

# The largest slope of each activation.
_SLOPES = {"sigmoid": 0.25, "tanh": 1.0, "relu": 1.0, "one_minus": 1.0, "identity": 1.0}


@dataclass(frozen=True)
class GradientConstants:
    r"""The constants of theorem 7 and the conditions of theorem 8 of Qian et al. (appendix D).

    A norm of the nodes has no part in them. Neither theorem says much of a network in practice: (16) never
    holds with the identity tuple, an activation of slope 1 and addition, and the conditions of theorem 8
    always do with tanh or addition.

    Attributes:
        c1: The largest spectral norm of a matrix :math:`L_r` or :math:`R_r`, the identity included (12).
        c2: The largest slope of an activation (13).
        c3: The largest spectral norm of a Jacobian of an operation (14): 1 for addition,
            :math:`\max \{\|L_r v\|_\infty, \|R_r v\|_\infty\}` over all tuples r and vectors v of a tree for
            multiplication.
        c4: The largest norm of :math:`\partial E_t / \partial h_t` (15).
        c5: The largest value, without its sign, of a vector of a tree (D.2).
        bound: The least :math:`(N + 1)^{-1 / (3 l_{\min})}` of all trees, with N the internal nodes of a tree
            and :math:`l_{\min} = \lfloor \log_2 (N + 1) \rfloor + 1`.
        steep_activation: Whether an activation has a slope of at least ``bound`` (theorem 8, condition 1).
        large_matrix: Whether a matrix has a norm of at least ``bound`` (condition 2).
        left, right: The fraction of tokens whose tree has a node with
            :math:`\|\partial o / \partial (L_r v_1)\|`, or :math:`\|\partial o / \partial (R_r v_2)\|`, of at
            least the bound of this tree (conditions 3 and 4, which ask for infinitely many tokens).
    """

    c1: float
    c2: float
    c3: float
    c4: float
    c5: float
    bound: float
    steep_activation: bool
    large_matrix: bool
    left: float
    right: float

    @property
    def vanishing(self) -> bool:
        r"""Whether gradients vanish by theorem 7: :math:`C_1 C_2 C_3 < 1/2` (16)."""
        return self.c1 * self.c2 * self.c3 < 0.5

    @property
    def may_explode(self) -> bool:
        """Whether a condition holds without which gradients cannot explode (theorem 8)."""
        return self.steep_activation or self.large_matrix or self.left > 0 or self.right > 0


@torch.no_grad()
def gradient_constants(model: TreeModel, gradients: Tensor) -> GradientConstants:
    r"""The constants for the trees that a model has kept of its last forward pass (``keep_trees``).

    Theorems 7 and 8 are about one state: with several, the trees are those of the last.

    Args:
        model: The model, after a pass in evaluation mode.
        gradients: :math:`\partial E_t / \partial h_t` of all tokens, ``[N, p]``: what :math:`h_t` does to the
            loss of its own token.

    Raises:
        ValueError: The model has kept no trees, or there are not as many gradients as tokens.
    """
    record = model.last_trees
    if record is None:
        raise ValueError("gradient_constants needs trees: set keep_trees before the forward pass over tokens")
    if len(gradients) != len(record):
        raise ValueError(f"gradients must be those of {len(record)} tokens, got {len(gradients)}")
    on_tree = record.occurrences(model.num_states - 1)
    vectors = torch.cat([record.leaves, record.nodes], 1)
    # ‖L_r v‖ and ‖R_r v‖ of all places: [N, places, 2, tuples].
    sizes = torch.stack(Pool(model.space, model.tuples, vectors).sides(), 2).abs().amax(-1)
    there = on_tree > 0
    matrices = float(torch.linalg.matrix_norm(model.tuples.weight, 2).max())
    slopes = max(_SLOPES[name] for name in model.space.activations)
    of_operations = {"add": 1.0, "mul": float(sizes[there].max())}
    # (N + 1)^(−1 / (3 l_min)) of trees with N internal nodes.
    num_nodes = on_tree[:, record.leaves.size(1) :].sum(1) + 1
    bounds = num_nodes ** (-1 / (3 * (num_nodes.log2().floor() + 1)))
    of_children = _jacobians(record, sizes).masked_fill(~there[:, record.leaves.size(1) :], 0)
    found = (of_children >= bounds.view(1, -1, 1)).any(2).double().mean(1)
    c1, bound = max(matrices, float(model.tuples.identity)), float(bounds.min())
    return GradientConstants(
        c1=c1,
        c2=slopes,
        c3=max(of_operations[name] for name in model.space.operations),
        c4=float(gradients.norm(dim=1).max()),
        c5=float(vectors[there].abs().max()),
        bound=bound,
        steep_activation=slopes >= bound,
        large_matrix=c1 >= bound,
        left=float(found[0]),
        right=float(found[1]),
    )


def _jacobians(record: Record, sizes: Tensor) -> Tensor:
    """Norms of ∂o/∂(L v_1) and ∂o/∂(R v_2) of all nodes, ``[2, N, K]``: 1, or that of the other factor."""
    r, o, _, i, j = record.space.parts(record.numbers)
    tokens = torch.arange(len(record), device=r.device).unsqueeze(1)
    others = torch.stack([sizes[tokens, j, 1, r], sizes[tokens, i, 0, r]])
    product = torch.tensor([name == "mul" for name in record.space.operations], device=o.device)[o]
    return torch.where(product, others, 1.0)


def state_gradients(
    model: StringModel, x: Tensor, loss: Callable[[Tensor], Tensor], state: State | None = None
) -> Tensor:
    r"""Norms of :math:`\partial E_T / \partial h_t` for t = 1 … T, in evaluation mode: with hard choices.

    Args:
        model: A model with states ``[M, B, p]``, the last of which is what it writes, such as
            :class:`~wlkernelnn.sequence.RRNN`.
        x: Strings of equal length, ``[B, T, in_channels]``, T ≥ 1.
        loss: :math:`E_T` of :math:`h_T` ``[B, p]``, summed over the strings.
        state: :math:`h_0`; default 0.

    Returns:
        ``[T, B]``; of several states the norm is that of all together.
    """
    states: list[Tensor] = []
    with evaluating(model), torch.enable_grad():
        for t in range(x.size(1)):
            _, state = model(x[:, t : t + 1], state=state)
            states.append(cast(Tensor, state))
        gradients = torch.autograd.grad(loss(states[-1][-1]), states, materialize_grads=True)
    return torch.stack([gradient.square().sum((0, 2)).sqrt() for gradient in gradients])
