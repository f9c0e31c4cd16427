"""What both models of trees share: a tree for every token, and states that are nodes of it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from wlkernelnn.ops.string import Steps
from wlkernelnn.ops.string.equations import Index, by_step
from wlkernelnn.sequence.layers.string_model import State, StringModel, check_state
from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.norm import BOUNDS, NORMS, NodeNorm
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.scorer import Scorer
from wlkernelnn.sequence.rrnn.search.search import Grown
from wlkernelnn.sequence.rrnn.search.space import Space
from wlkernelnn.sequence.rrnn.search.tuples import Tuples
from wlkernelnn.sequence.rrnn.trees.cells import Cell
from wlkernelnn.sequence.rrnn.trees.record import Record
from wlkernelnn.utils.checks import check_count, check_widths


class TreeModel(StringModel):
    """Base of models that grow a tree at every token, by :meth:`grow`; for the arguments see :class:`RRNN`.

    On trees and other directed acyclic graphs the states before are sums over a node's predecessors.

    Args:
        ends: After how many nodes each state is there.
        copies: See :class:`MergingRRNN`; default one of each.

    Attributes:
        cell: A known cell that all tokens have, instead of one of their own; or ``None``.
        keep_trees: Whether a forward pass keeps what it has grown.
        copies: How often the token, each state and each auxiliary vector are among the nodes at the start.
        last_trees: What the last forward pass has grown, if it was asked to keep it and there were tokens.
    """

    branches = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        ends: Sequence[int],
        *,
        num_tuples: int,
        operations: Sequence[str] = Space.operations,
        activations: Sequence[str] = Space.activations,
        auxiliary: Sequence[float] = (0.0,),
        identity: bool = True,
        hidden_channels: int,
        choice: str,
        temperature: float,
        norm: str | None,
        bias_std: float | None = None,
        copies: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        check_widths(in_channels, out_channels)
        num_tuples = check_count("num_tuples", num_tuples)
        check_count("hidden_channels", hidden_channels)
        if bias_std is not None and not 0 <= bias_std < math.inf:
            raise ValueError(f"bias_std must be finite and not negative, got {bias_std}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.space = Space(num_tuples + identity, tuple(operations), tuple(activations), norm == "max")
        self.ends = tuple(ends)
        self.auxiliary = tuple(auxiliary)
        self.copies = (1,) * (1 + len(self.ends) + len(self.auxiliary)) if copies is None else tuple(copies)
        self.choice = Choice(choice, temperature)
        self.cell: Cell | None = None
        self.keep_trees = False
        self.last_trees: Record | None = None
        self.lin = None if in_channels == out_channels else Linear(in_channels, out_channels)
        self.tuples = Tuples(out_channels, num_tuples, identity, bias_std)
        self.scorer = Scorer(out_channels, hidden_channels)
        if norm not in (None, *BOUNDS):
            raise ValueError(f"norm must be one of {', '.join(BOUNDS)}, or None, got {norm!r}")
        self.norm = NodeNorm(norm, self.ends[-1], out_channels, bias_std or 0.0) if norm in NORMS else None
        self.reset_parameters()

    @property
    def num_states(self) -> int:
        return len(self.ends)

    @property
    def leaf_of_copy(self) -> list[int]:
        """Of every node at the start, which vector it is: the token, a state or an auxiliary one, from 0."""
        return [leaf for leaf, count in enumerate(self.copies) for _ in range(count)]

    def __getstate__(self) -> dict[str, Any]:
        # What was grown belongs to a pass, with its gradients: copies do not have it.
        return self.__dict__ | {"last_trees": None}

    @abstractmethod
    def grow(self, pool: Pool, choice: Choice) -> Grown:
        """Make the nodes of a step."""

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, Tensor]:
        shape = (self.num_states, steps.num_strings, self.out_channels)
        before = x.new_zeros(shape) if state is None else check_state(type(self).__name__, state, shape)
        how = self.choice.how if self.training else "hard"
        choice = Choice(how, self.choice.temperature, gaps=self.keep_trees)
        if self.lin is not None:
            # Under autocast only products are of lower precision: states go on over many steps.
            x = self.lin(x).to(x.dtype)
        auxiliary = x.new_tensor(self.auxiliary).unsqueeze(1).expand(-1, self.out_channels)
        of_auxiliary = self.tuples.project(auxiliary)
        copied = max(self.copies) > 1
        leaf = torch.tensor(self.leaf_of_copy, device=x.device)
        pieces = iter(steps.each(x, self.tuples.project(x)))
        starts, found = [], []

        def step(h: Sequence[Tensor], t: Index, string: Index) -> Sequence[Tensor]:
            (x_t, of_x), previous = next(pieces), torch.stack([*h], 1)
            size = x_t.size(0)
            start = torch.cat([x_t.unsqueeze(1), previous, auxiliary.expand(size, -1, -1)], 1)
            of_h, fixed = self.tuples.project(previous), of_auxiliary.expand(size, -1, -1, -1, -1)
            projected = torch.cat([of_x.unsqueeze(1), of_h, fixed], 1)
            if copied:
                start, projected = start.index_select(1, leaf), projected.index_select(1, leaf)
            pool = Pool(self.space, self.tuples, start, projected)
            grown = self.grow(pool, choice) if self.cell is None else self.follow(self.cell, pool)
            if self.keep_trees:
                starts.append(start)
                found.append(grown)
            return grown.nodes[:, [end - 1 for end in self.ends]].unbind(1)

        states = by_step(step, steps, before.unbind(), x)
        if found or self.last_trees is not None:  # exported programs have no side effects
            self.last_trees = self._record(steps, starts, found) if found else None
        out = states[-1][steps.num_strings :] if steps.num_tokens else x
        return out, torch.stack([steps.last(h) for h in states])

    def check_cell(self, cell: Cell) -> None:
        """Refuse a cell whose states are not where this model has its own."""
        if cell.ends != self.ends:
            raise ValueError(f"expected a cell whose states end after {self.ends} nodes, got {cell.ends}")

    def follow(self, cell: Cell, pool: Pool) -> Grown:
        """A known cell: nothing is chosen, and no runner-up is near."""
        self.check_cell(cell)
        nodes = cell.follow(pool, self.norm, learn=True)
        numbers = torch.tensor(cell.numbers(self.space), device=nodes.device).expand(nodes.size(0), -1)
        return Grown(nodes, numbers, nodes.new_full(numbers.shape, torch.inf))

    def _record(self, steps: Steps, starts: list[Tensor], found: list[Grown]) -> Record:
        leaves, nodes, numbers, gaps = (
            steps.leave(torch.cat([part for part in parts if part is not None]))
            for parts in (starts, *zip(*found, strict=True))
        )
        names = ["x", *(f"h{i + 1}" for i in range(self.num_states)), *(f"{c:g}" for c in self.auxiliary)]
        names = [names[i] for i in self.leaf_of_copy]
        return Record(self.space, tuple(names), self.ends, steps.num_strings, leaves, nodes, numbers, gaps)

    def _extras(self) -> list[str]:
        norm = "max" if self.space.bounded else None if self.norm is None else self.norm.kind
        return [
            f"num_tuples={len(self.tuples.bias)}",
            f"choice={self.choice.how!r}",
            f"temperature={self.choice.temperature:g}",
            f"norm={norm!r}",
            *([] if self.tuples.bias_std is None else [f"bias_std={self.tuples.bias_std:g}"]),
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, {', '.join(self._extras())})"
