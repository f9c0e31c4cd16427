"""Recursive-recurrent neural networks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown, search
from wlkernelnn.utils.checks import check_count

from .tree_model import TreeModel


class RRNN(TreeModel):
    r"""The network of "Dynamic Cell Structure via Recursive-Recurrent Neural Networks" (Qian, Kennedy,
    Klabjan; Algorithm 1 and appendix B): at every token its own cell, grown as a binary tree.

    Nodes are :math:`x_t`, the states before, auxiliary vectors, and then, round by round,

    .. math::
        c^* = \arg\max_v \alpha(v), \qquad v = u(o(L_r c_i, R_r c_j) + b_r), \quad i < j

    over all tuples r, operations o, activations u and pairs of nodes, but for those that a node is made of
    already. The last node of each run is a state, and that of the last run :math:`h_t`.

    Args:
        in_channels: Width of the tokens, −1 for lazy. Where it is not ``out_channels``, or lazy, tokens go
            through a linear layer first.
        out_channels: Width p of the nodes.
        rounds: N̄, or that of each of M runs.
        num_tuples: Number of tuples (L, R, b) that are learned.
        operations: o: of ``"add"`` and ``"mul"``.
        activations: u: of ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"one_minus"`` and ``"identity"``.
        auxiliary: Values of the constant vectors.
        identity: Whether the tuple (I, I, 0) is there as well.
        hidden_channels: Width between the two layers of α.
        choice: In training a node is ``"softmax"`` (the mean over all candidates, weighted by
            :math:`\mathrm{softmax}(\alpha / \tau)`), or ``"straight_through"`` (the best one, and the scores
            have the gradients of the mean), or ``"hard"`` (the scores have none). Elsewhere it is hard.
        temperature: τ.
        distinct: No candidate is chosen that is a copy of another node of the same tree either
            (before they are normalised by ``"layer"`` or ``"batch"``).
        norm: Keeps products of products from overflowing. ``"layer"``: nodes are normalised over their
            channels when they are made; ``"batch"``: over the strings of a step, which bounds nothing in
            evaluation (the paper has batch normalisation, and does not say where); ``"max"``: candidates
            whose root mean square is larger than 1 are scaled down to 1, as no node of the paper's GRU is, so
            that theorem 5 holds (torch's GRU and the LSTM have nodes without bounds); ``None``: nothing.
        bias_std: Standard deviation at first of the :math:`b_r` and of the shifts of a norm: by such offsets
            α, which sees values alone, knows how a node was made. Default: the :math:`b_r` uniform in
            :math:`\pm 1 / \sqrt p`, shifts 0.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; ``state
          [M, B, out_channels]``
        - output: h ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.

    With ``keep_trees`` set, a forward pass leaves a :class:`~.record.Record` in ``last_trees``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        rounds: int | Sequence[int] = 8,
        num_tuples: int = 3,
        operations: Sequence[str] = ("add", "mul"),
        activations: Sequence[str] = ("sigmoid", "tanh", "one_minus", "identity"),
        auxiliary: Sequence[float] = (0.0,),
        identity: bool = True,
        hidden_channels: int = 64,
        choice: str = "softmax",
        temperature: float = 1.0,
        distinct: bool = False,
        norm: str | None = "layer",
        bias_std: float | None = None,
    ) -> None:
        runs = [check_count("rounds", n) for n in (rounds if isinstance(rounds, Sequence) else [rounds])]
        if not runs:
            raise ValueError(f"rounds must be those of at least one run, got {rounds}")
        super().__init__(
            in_channels,
            out_channels,
            list(accumulate(runs)),
            num_tuples=num_tuples,
            operations=operations,
            activations=activations,
            auxiliary=auxiliary,
            identity=identity,
            hidden_channels=hidden_channels,
            choice=choice,
            temperature=temperature,
            norm=norm,
            bias_std=bias_std,
        )
        self.rounds = runs if len(runs) > 1 else runs[0]
        self.distinct = distinct

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        return search(pool, self.scorer, self.ends[-1], choice, self.distinct, self.norm)

    def _extras(self) -> list[str]:
        return [f"rounds={self.rounds}", *super()._extras()]
