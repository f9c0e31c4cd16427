"""How a scorer is trained: by imitation of a known cell, and in turn with the tuples."""

from __future__ import annotations

import torch
from torch import Tensor

from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.trees.cells import Cell


def imitation(model: TreeModel, cell: Cell, leaves: Tensor) -> Tensor:
    r"""How improbable the choice of each node of a cell is, if all candidates of a token were there at once.

    .. math::
        -\log \frac{e^{\alpha(c_k) / \tau}}
        {\sum_{m \ge k} e^{\alpha(c_m) / \tau} + \sum_{v} e^{\alpha(v) / \tau}}

    where :math:`c_1, c_2, …` are the nodes of the cell and v all else that can be made of them and of the
    leaves. Small values say that the search finds the cell as it is: the scorer of Lemma 1 of Qian et al.,
    but learned.

    Args:
        model: Has the scorer α and τ, and chooses among all candidates, as :class:`~.rrnn.RRNN`. Its tuples
            get gradients too: only then can nodes be told apart.
        cell: The cell, whose nodes are made by the model's own tuples in their fixed roles.
        leaves: Nodes at the start of some tokens, ``[N, n, p]``.

    Returns:
        ``[N, K]``

    Raises:
        ValueError: A node of the cell is not in the space of the model.
    """
    found = Pool(model.space, model.tuples, leaves)
    nodes = cell.follow(found, model.norm)
    # Nothing is made of the last node.
    pool = Pool(model.space, model.tuples, torch.cat([leaves, nodes[:, :-1]], 1))
    scores = model.scorer(pool.candidates()) / model.choice.temperature
    numbers = torch.tensor(cell.numbers(model.space), device=scores.device)
    others = scores.index_fill(1, numbers, -torch.inf).logsumexp(1, keepdim=True)
    chosen = scores[:, numbers]
    later = chosen.flip(1).logcumsumexp(1).flip(1)
    return torch.logaddexp(later, others) - chosen


def alternate(model: TreeModel, epoch: int, every: int) -> str:
    """Let an epoch train either the tuples (L, R, b) or the scorer; everything else is always trained.

    Args:
        model: Its ``requires_grad`` are set.
        epoch: Counted from 0; tuples come first.
        every: After how many epochs it changes.

    Returns:
        ``"tuples"`` or ``"scorer"``.

    Raises:
        ValueError: ``every`` is not positive.
    """
    if every < 1:
        raise ValueError(f"every counts epochs: at least 1, got {every}")
    trained = ("tuples", "scorer")[epoch // every % 2]
    model.tuples.requires_grad_(trained == "tuples")
    model.scorer.requires_grad_(trained == "scorer")
    return trained
