"""The string kernel as a layer."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from wlkernelnn.blocks.activation import activation
from wlkernelnn.blocks.compose import COMPOSE
from wlkernelnn.blocks.decay import Decay
from wlkernelnn.blocks.shown import shown
from wlkernelnn.ops.string import Steps, feedback_scan, ngram_scan
from wlkernelnn.ops.string.equations import mixed
from wlkernelnn.utils.checks import check_count, check_dropout, check_one_of, check_widths

from .dropout import locked_mask
from .string_model import State, StringModel, check_state


class StringKernelConv(StringModel):
    r"""The string kernel network of `"Deriving Neural Architectures from Sequence and Graph Kernels"
    <https://arxiv.org/abs/1705.09037>`_ (Lei et al. 2017, sections 2 and 4, Tables 4 and 5).

    .. math::
        c_1[t] = \lambda_t \odot c_1[t-1] + s_t \odot W^{(1)} x_t \qquad
        c_j[t] = \lambda_t \odot c_j[t-1] + s_t \odot (c_{j-1}[t-1] \circ W^{(j)} x_t) \qquad
        h[t] = \sigma(c_n[t])

    with s = 1 − λ (``normalize``) or 1. The table's variants are (a) ``compose="mul", normalize=False``,
    (b) ``compose="mul"`` and (c) ``compose="add"``, both normalised.

    With a constant λ and variant (a), :math:`c_j[t]` is, channel by channel, the string kernel between
    :math:`x_1 … x_t` and the string of that channel's rows of :math:`W^{(1)} … W^{(j)}` (theorem 1). Variant
    (b) is :math:`(1-\lambda)^n` times that (not the quotient that Table 5 prints). Variant (c) is

    .. math::
        c_n[t] = \sum_m (1-\lambda)^{n-m+1}
            \sum_{i \le t - n + m} \binom{t-i}{n-m} \lambda^{t-i-n+m} W^{(m)} x_i ,

    which is no multiple of Table 5's either: the recurrence adds tokens to states that are still empty.

    With λ = 0 this is a word CNN (``"add"``, ``normalize=False``), or, with products,
    :class:`~wlkernelnn.RandomWalkKernelConv` on the strings as path graphs.

    Args:
        in_channels: Width of the tokens, −1 for lazy.
        out_channels: Number of reference strings.
        ngram: Length n of the patterns.
        decay: λ: a float in [0, 1], ``"learned"`` (a vector), or ``"gated"``:
            :math:`\lambda_t = \mathrm{sigmoid}(W x_t + b)`, one for all j.
        compose: ∘, ``"mul"`` or ``"add"``.
        normalize: s = 1 − λ instead of 1; where λ = 1, tokens then leave no trace.
        act: σ, elementwise and not in place; ``None`` is the identity.
        readout: What h is made of: ``"last"`` (:math:`c_n`), ``"sum"`` (:math:`\sum_j c_j`), or ``"learned"``
            (:math:`\sum_j a_j \odot c_j` with learned vectors that start as :math:`c_n`).
        feedback: The gate sees h as well: :math:`\lambda_t = \mathrm{sigmoid}(W x_t + U h[t-1] + b)`.
        highway: :math:`h[t] = f_t \odot \sigma(\cdot) + (1 - f_t) \odot x_t` with
            :math:`f_t = \mathrm{sigmoid}(W x_t + b)` (section 6.1).
        dropout: Probability of variational dropout: one mask per string for x and one for h where gate and
            highway see it, the same at all its tokens.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; ``state
          [n, B, out_channels]``: :math:`c_1 … c_n` before the first token, with feedback h as well
        - output: h ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.

    Trees and other directed acyclic graphs are read as well, level by level, with a path as the special case:

    .. math::
        c_j[v] = \lambda_v \odot \sum_{u \to v} w_{uv} \, c_j[u]
            + s_v \odot \Big(\sum_{u \to v} w_{uv} \, c_{j-1}[u] \circ W^{(j)} x_v\Big)

    with :math:`w_{uv}` the ``edge_weight`` or 1. A gate with feedback sees
    :math:`\sum_{u \to v} w_{uv} \, h[u]`.

    The weights :math:`W^{(j)}` are ``lins[j - 1].weight [out_channels, in_channels]``.
    """

    branches = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        ngram: int = 2,
        decay: float | str = "gated",
        compose: str = "mul",
        normalize: bool = True,
        act: str | torch.nn.Module | None = None,
        readout: str = "last",
        feedback: bool = False,
        highway: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_widths(in_channels, out_channels)
        ngram = check_count("ngram", ngram)
        check_one_of("compose", compose, COMPOSE)
        check_one_of("readout", readout, ("last", "sum", "learned"))
        if feedback and decay != "gated":
            raise ValueError(f'feedback goes into the gate: it needs decay="gated", got decay={decay!r}')
        if highway and in_channels != out_channels:
            raise ValueError(
                f"highway carries x over to h: it needs in_channels = out_channels, "
                f"got {in_channels} and {out_channels}"
            )
        check_dropout(dropout)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.ngram = ngram
        self.compose = compose
        self.normalize = normalize
        self.readout = readout
        self.feedback = feedback
        self.dropout = dropout
        self.act = None if act is None else activation(act)
        self.lins = torch.nn.ModuleList(Linear(in_channels, out_channels, bias=False) for _ in range(ngram))
        # The bias of a gate rides on the last input: the tokens.
        self.decay = Decay(decay, out_channels, (out_channels, in_channels) if feedback else (in_channels,))
        self.highway = Linear(in_channels, out_channels) if highway else None
        self.mix = torch.nn.Parameter(torch.empty(ngram, out_channels)) if readout == "learned" else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        if self.mix is not None:
            torch.nn.init.zeros_(self.mix[:-1])
            torch.nn.init.ones_(self.mix[-1])

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, Tensor]:
        if state is not None:
            shape = (self.ngram + self.feedback, steps.num_strings, self.out_channels)
            state = check_state(type(self).__name__, state, shape)
        h_mask = None
        if self.training and self.dropout:
            widths = x.size(1), self.out_channels
            x_mask, h_mask = (locked_mask(steps.num_strings, width, self.dropout, x) for width in widths)
            x = x * steps.of_tokens(x_mask)

        def projected(lin: torch.nn.Module) -> Tensor:
            # Under autocast only products are of lower precision: states add up over many steps.
            return lin(x).to(x.dtype)

        u = [projected(lin) for lin in self.lins]
        carry = None if self.highway is None else (torch.sigmoid(projected(self.highway)), x)
        mix: Tensor | None = self.mix
        if self.readout == "sum" and self.ngram > 1:
            mix = u[0].new_ones(self.ngram, self.out_channels)
        if self.feedback:
            of_h, of_x = self.decay.lins
            weight = cast(Tensor, of_h.weight)
            options = (self.compose, self.normalize, mix, self.act, carry, h_mask)
            states = feedback_scan(u, projected(of_x), weight, steps, state, *options)
            h = states[-1][steps.num_strings :]
        else:
            decay = self.decay.gate(projected(self.decay.lins[0])) if self.decay.gated else self.decay()
            states = ngram_scan(u, decay, steps, state, self.compose, self.normalize)
            c = [extended[steps.num_strings :] for extended in states]
            h = c[-1] if mix is None else mixed(mix, c)
            h = h if self.act is None else self.act(h)
            if carry is not None:
                h = torch.lerp(x, h if h_mask is None else h * steps.of_tokens(h_mask), carry[0])
        return h, torch.stack([steps.last(c) for c in states])

    def __repr__(self) -> str:
        return shown(self, "ngram", "decay", decay=self.decay.decay, highway=self.highway is not None)
