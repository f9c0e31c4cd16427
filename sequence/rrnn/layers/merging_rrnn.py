"""Recursive-recurrent neural networks whose cells merge a multiset of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from wlkernelnn.sequence.rrnn.search.choice import Choice
from wlkernelnn.sequence.rrnn.search.pool import Pool
from wlkernelnn.sequence.rrnn.search.search import Grown, search
from wlkernelnn.utils.checks import check_count

from .tree_model import TreeModel


class MergingRRNN(TreeModel):
    r"""The cell of Qian et al. as eq. (5) has it: :math:`f = f_N \circ f_{N-1} \circ … \circ f_1`.

    Nodes at the start are a multiset :math:`\mathcal N_0` of N: copies of :math:`x_t`, of :math:`h_{t-1}` and
    of auxiliary vectors. :math:`f_k` merges two of them:

    .. math::
        C_k = \{u(o(L_r c_i, R_r c_j) + b_r) : c_i, c_j \in \mathcal N_{k-1}, i < j\} \qquad
        c_k^* = \arg\max_{c \in C_k} \alpha(c) \qquad
        \mathcal N_k = \{c_k^*\} \cup \mathcal N_{k-1} \setminus \{c_i^*, c_j^*\}

    until one is left, :math:`h_t = c_{N-1}^*`: a full tree with all N leaves. :class:`RRNN` is what the paper
    makes of it in practice (Algorithm 1): one copy of each vector, and nodes that are used again.

    The GRU's tree (figure 1) is such a tree over four :math:`x_t`, five :math:`h_{t-1}` and a vector of zeros
    (the paper counts three and six). But no α finds it: α sees the vector alone, so that of r and z, which
    are both made of an :math:`x_t` and an :math:`h_{t-1}`, the one with the higher score is made again as
    long as copies are left, and the other one never. Algorithm 1's rule that no node is made twice is needed.

    Args:
        in_channels: Width of the tokens, −1 for lazy. Where it is not ``out_channels``, or lazy, tokens go
            through a linear layer first.
        out_channels: Width p of the nodes.
        copies: How often :math:`x_t`, :math:`h_{t-1}` and each auxiliary vector are in :math:`\mathcal N_0`.
        num_tuples, operations, activations, auxiliary, identity: See :class:`RRNN`.
        hidden_channels, choice, temperature, norm, bias_std: See :class:`RRNN`.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; ``state
          [1, B, out_channels]``
        - output: h ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.

    With ``keep_trees`` set, a forward pass leaves a :class:`~.record.Record` in ``last_trees``.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        copies: Sequence[int] = (4, 5, 1),
        num_tuples: int = 3,
        operations: Sequence[str] = ("add", "mul"),
        activations: Sequence[str] = ("sigmoid", "tanh", "one_minus", "identity"),
        auxiliary: Sequence[float] = (0.0,),
        identity: bool = True,
        hidden_channels: int = 64,
        choice: str = "softmax",
        temperature: float = 1.0,
        norm: str | None = "layer",
        bias_std: float | None = None,
    ) -> None:
        counts = [check_count("copies", count) for count in copies]
        if len(counts) != 2 + len(auxiliary):
            raise ValueError(
                f"copies must be those of x, h and {len(auxiliary)} auxiliary vectors, "
                f"got {len(counts)} numbers"
            )
        super().__init__(
            in_channels,
            out_channels,
            (sum(counts) - 1,),
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
            copies=counts,
        )

    def grow(self, pool: Pool, choice: Choice) -> Grown:
        return search(pool, self.scorer, self.ends[-1], choice, norm=self.norm, merging=True)

    def _extras(self) -> list[str]:
        return [f"copies={self.copies}", *super()._extras()]
