"""Distances between the trees of many tokens and a cell's, with gradients."""

from __future__ import annotations

from functools import partial
from itertools import product

import torch
from torch import Tensor

from wlkernelnn.utils.checks import check_one_of

from .cells import Cell
from .record import Record

ISOMORPHISMS = ("exact", "relaxed", "expected")


def tree_distances(
    record: Record, cell: Cell, target: Tensor, state: int = 0, isomorphisms: str = "exact"
) -> Tensor:
    r"""TD between the tree of a state and the cell's, over its isomorphic ones.

    A subtree's VD is the squared distance of the roots plus the VD's of the children, so that all pairs of
    nodes are compared once, however often they occur in the trees.

    Args:
        record: Trees of N tokens.
        cell: The target.
        target: Vectors of its nodes, ``[N, K, p]``.
        state: Which of the states, counted from 0.
        isomorphisms: ``"exact"``: the least TD to an isomorphic target, of which all are tried.
            ``"relaxed"``: every subtree has its own isomorphism, a lower bound. ``"expected"``: the mean over
            all of them.

    Returns:
        ``[N]``.

    Raises:
        ValueError: ``isomorphisms`` is not one of the three.
    """
    check_one_of("isomorphisms", isomorphisms, ISOMORPHISMS)
    end, relaxed = record.ends[state], isomorphisms == "relaxed"
    # Children as places among the nodes, behind one place for all leaves.
    num_leaves = record.leaves.size(1)
    children = torch.stack(record.space.parts(record.numbers[:, :end])[3:])
    children = (children - num_leaves + 1).clamp(min=0)
    members, orders = _of_target(cell, cell.ends[state], relaxed)
    orders = orders.to(target.device)
    nodes, vectors = record.nodes[:, :end], target[:, members]
    apart = (nodes.unsqueeze(2) - vectors.unsqueeze(1)).square().sum(-1)
    sizes = _sizes(nodes.square().sum(-1), children)
    of_leaf = _sizes(vectors.square().sum(-1), orders[..., 0].expand(-1, len(nodes), -1))
    occurrences = record.occurrences(state)[:, num_leaves:]
    totals = partial(_totals, apart, sizes, of_leaf, children, occurrences, relaxed)
    if isomorphisms == "exact":
        with torch.no_grad():
            best = totals(orders).argmin(1)
        orders = orders[:, 0, :, best].permute(0, 2, 1).unsqueeze(3)
    return totals(orders).mean(1)


def _totals(
    apart: Tensor,
    sizes: Tensor,
    of_leaf: Tensor,
    children: Tensor,
    occurrences: Tensor,
    relaxed: bool,
    orders: Tensor,
) -> Tensor:
    """TD to each isomorphic target, ``[N, trees]``.

    ``apart`` are squared distances of nodes and members, ``[N, K, members]``; ``sizes`` and ``of_leaf`` VD's
    of all places to a leaf; and ``orders`` children of the members, ``[2, N or 1, members, trees]``.
    """
    num_trees = orders.size(3)
    tokens = torch.arange(len(apart), device=apart.device)
    ours = orders.expand(-1, len(apart), -1, -1)
    # VD of every place of the predicted tree to every place of the target.
    table = [of_leaf.unsqueeze(2).expand(-1, -1, num_trees)]
    total = apart.new_zeros(len(apart), num_trees)
    for k in range(apart.size(1)):
        so_far = torch.stack(table, 1)
        left, right = (so_far[tokens, child[:, k]] for child in children)
        below = left.gather(1, ours[0]) + right.gather(1, ours[1])
        if relaxed:
            below = torch.minimum(below, left.gather(1, ours[1]) + right.gather(1, ours[0]))
        difference = apart[:, k].unsqueeze(2) + below
        total = total + occurrences[:, k].unsqueeze(1) * difference.amin(1)
        size = sizes[:, k + 1].view(-1, 1, 1).expand(-1, 1, num_trees)
        table.append(torch.cat([size, difference], 1))
    return total


def _of_target(cell: Cell, end: int, relaxed: bool) -> tuple[list[int], Tensor]:
    """The nodes of the tree of a state, and their left and right children in each isomorphic tree.

    Children, ``[2, 1, members, trees]``, are places among the members, behind one place for all leaves.
    """
    members: list[int] = []
    uses = [0] * end

    def visit(node: int) -> None:
        uses[node] += 1
        if node not in members:
            for child in cell.nodes[node][3:]:
                if child >= cell.num_leaves:
                    visit(child - cell.num_leaves)
            members.append(node)

    visit(end - 1)
    place = {node + cell.num_leaves: i for i, node in enumerate(members, 1)}
    pairs = [[place.get(child, 0) for child in cell.nodes[node][3:]] for node in members]
    turning = [i for i, pair in enumerate(pairs) if any(pair)]
    if any(uses[members[i]] > 1 for i in turning):
        raise ValueError("a target must not use a node twice that has internal children")
    orders = []
    for turned in product((False, True), repeat=0 if relaxed else len(turning)):
        flipped = {i for i, flip in zip(turning, turned, strict=not relaxed) if flip}
        orders.append([pair[::-1] if i in flipped else pair for i, pair in enumerate(pairs)])
    return members, torch.tensor(orders).permute(2, 1, 0).unsqueeze(1)


def _sizes(norms: Tensor, children: Tensor) -> Tensor:
    """The sums of squared norms ``[N, K]`` in the subtree of each place, ``[N, 1 + K]``; 0 for leaves."""
    sizes = [norms.new_zeros(len(norms))]
    for k in range(norms.size(1)):
        so_far = torch.stack(sizes, 1)
        below = [so_far.gather(1, child[:, k : k + 1]).squeeze(1) for child in children]
        sizes.append(norms[:, k] + below[0] + below[1])
    return torch.stack(sizes, 1)
