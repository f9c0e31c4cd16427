"""Recurrent kernel machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.nn.parameter import is_lazy
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import uniform

from wlkernelnn.blocks.decay import Decay
from wlkernelnn.blocks.shown import shown
from wlkernelnn.ops.string import GatedCell, Steps, decayed_scan, filtered, gated_scan, last_tokens, windows
from wlkernelnn.ops.string.gated import affine
from wlkernelnn.utils.checks import check_count, check_finite, check_one_of, check_widths, is_fraction

from .string_model import State, StringModel, check_parts
from .sync_filters import SyncFilters

# Liang et al. 2019, Table 1; and recurrent additive networks, of which Lee et al. 2017 have two.
VARIANTS: dict[str, GatedCell] = {
    "lstm": GatedCell("gate", "gate", output=True, squash=True, squash_output=True, bias=True),
    "rkm_lstm": GatedCell("gate", "gate", output=True),
    "rkm_cifg": GatedCell("rest", "gate", output=True),
    "linear_gated": GatedCell("constant", "constant", output=True),
    "linear": GatedCell("constant", "constant", output=False, squash_output=True),
    "gated_cnn": GatedCell("constant", None, output=True, feedback="none"),
    "cnn": GatedCell("constant", None, output=False, squash_output=True, feedback="none"),
    "ran": GatedCell("gate", "gate", output=False, feedback="gates"),
    "ran_tanh": GatedCell("gate", "gate", output=False, squash_output=True, feedback="gates"),
}


class RKM(StringModel):
    r"""The machines of `"Kernel-Based Approaches for Sequence Modeling: Connections to Neural Methods"
    <https://arxiv.org/abs/1910.04233>`_ (Liang et al. 2019, Table 1): the LSTM, the CNN, and what is between.

    .. math::
        \tilde c_t = W_c z_t \qquad
        c_t = i_t \odot \varphi(\tilde c_t) + f_t \odot c_{t-1} \qquad
        h_t = o_t \odot \psi(\mathrm{LN}(c_t))

    with :math:`z_t = [x_t, x_{t-s}, …, x_{t-(n-1)s}, h_{t-1}]`, 0 before a string begins, and gates
    :math:`\mathrm{sigmoid}(W z_t + b)`. φ and ψ are the identity where the table does not show tanh:

    ================  ==========================================================  =======================
    variant           :math:`c_t`                                                 :math:`h_t` (without LN)
    ================  ==========================================================  =======================
    ``lstm``          :math:`i_t \odot \tanh(\tilde c_t) + f_t \odot c_{t-1}`     :math:`o_t \odot \tanh(c_t)`
    ``rkm_lstm``      :math:`i_t \odot \tilde c_t + f_t \odot c_{t-1}`            :math:`o_t \odot c_t`
    ``rkm_cifg``      :math:`(1 - f_t) \odot \tilde c_t + f_t \odot c_{t-1}`      :math:`o_t \odot c_t`
    ``linear_gated``  :math:`\sigma_i^2 \tilde c_t + \sigma_f^2 c_{t-1}`          :math:`o_t \odot c_t`
    ``linear``        :math:`\sigma_i^2 \tilde c_t + \sigma_f^2 c_{t-1}`          :math:`\tanh(c_t)`
    ``gated_cnn``     :math:`\sigma_i^2 \tilde c_t`                               :math:`o_t \odot c_t`
    ``cnn``           :math:`\sigma_i^2 \tilde c_t`                               :math:`\tanh(c_t)`
    ``ran``           :math:`i_t \odot \tilde c_t + f_t \odot c_{t-1}`            :math:`c_t`
    ``ran_tanh``      :math:`i_t \odot \tilde c_t + f_t \odot c_{t-1}`            :math:`\tanh(c_t)`
    ================  ==========================================================  =======================

    In the CNNs nothing sees h, in the additive networks :math:`\tilde c_t` does not. ``lstm`` has a bias in
    :math:`\tilde c_t` as well and is :class:`torch.nn.LSTM` if n = 1 and there is no layer norm.

    Args:
        in_channels: Width of the tokens, −1 for lazy.
        out_channels: Width of c and h.
        variant: See above.
        ngram: Length n of the filters, or a length for every channel of c (weights beyond it have no effect).
        dilation: Distance s of the tokens that a filter sees.
        layer_norm: ``"output"`` (or ``True``): h sees LN(c), and c is carried as it is. ``"state"``: LN(c) is
            carried. ``False``: none; where h has no tanh, such machines may diverge.
        feedback: h is seen; without, all tokens are computed at once.
        filters: ``"free"``, or ``"sync"``: :class:`SyncFilters`, a set for c̃ and each gate.
        sigma_i2, sigma_f2: :math:`\sigma_i^2` and :math:`\sigma_f^2`, where the variant has them: a float in
            [0, 1], or ``"learned"``: sigmoids that start at 1/2, one for :math:`\sigma_i^2` and one for each
            channel for :math:`\sigma_f^2`. Default 1/2, in the CNNs :math:`\sigma_i^2 = 1`.
        forget_bias: What is added to the bias of f, where that is a gate, when it is drawn.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; ``state``, a tuple
          of what there is of c ``[B, out_channels]`` (not in CNNs), h ``[B, out_channels]`` (with feedback)
          and the (n − 1) s tokens before, ``[(n − 1) s, B, in_channels]`` (where n > 1)
        - output: h ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.

    Trees and other directed acyclic graphs are read as well: in the place of :math:`c_{t-1}` and
    :math:`h_{t-1}` stand the sums over a node's predecessors, in that of :math:`x_{t-js}` the sum over all
    walks of js edges that lead to it.

    Weights of c̃, i, f and o, where there are such, stand below each other in this order:
    ``lins[j].weight [parts · out_channels, in_channels]`` meets :math:`x_{t-js}`, and ``lin_h.weight``
    :math:`h_{t-1}`.
    """

    branches = True
    reaches: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        variant: str = "rkm_lstm",
        ngram: int | Sequence[int] = 1,
        dilation: int = 1,
        layer_norm: bool | str = True,
        feedback: bool = True,
        filters: str = "free",
        sigma_i2: float | str | None = None,
        sigma_f2: float | str | None = None,
        forget_bias: float = 0.0,
    ) -> None:
        super().__init__()
        check_widths(in_channels, out_channels)
        check_one_of("variant", variant, VARIANTS)
        dilation = check_count("dilation", dilation)
        if layer_norm not in (True, False, "output", "state"):
            raise ValueError(f'layer_norm must be "output", "state" or a bool, got {layer_norm!r}')
        if filters not in ("free", "sync"):
            raise ValueError(f'filters must be "free" or "sync", got {filters!r}')
        if filters == "sync" and in_channels == -1:
            raise ValueError('filters="sync" needs to know in_channels, got -1')
        by_channel = isinstance(ngram, Iterable)
        lengths = [check_count("ngram", n) for n in (ngram if isinstance(ngram, Iterable) else [ngram])]
        if by_channel and (len(lengths) != out_channels or filters == "sync"):
            raise ValueError(
                f'ngram is a number, or, of filters="free", a number for each of {out_channels} channels, '
                f"got {len(lengths)} of filters={filters!r}"
            )
        check_finite("forget_bias", forget_bias)
        cell = VARIANTS[variant]
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.variant = variant
        self.cell = cell if feedback else replace(cell, feedback="none")
        self.ngram = lengths if by_channel else lengths[0]
        self.size = max(lengths)
        self.dilation = dilation
        self.layer_norm = "output" if layer_norm is True else layer_norm
        self.norm_state = layer_norm == "state" and cell.forget is not None
        self.feedback = self.cell.num_seeing > 0
        self.forget_bias = forget_bias
        self.scale_i = self._scale("sigma_i2", sigma_i2, cell.input == "constant", 1)
        self.scale_f = self._scale("sigma_f2", sigma_f2, cell.forget == "constant", out_channels)
        width = len(cell.parts) * out_channels
        self.lins, self.syncs = torch.nn.ModuleList(), torch.nn.ModuleList()
        if filters == "sync":
            self.syncs.extend(SyncFilters(in_channels, out_channels, self.size) for _ in cell.parts)
        else:
            self.lins.extend(Linear(in_channels, width, bias=False) for _ in range(self.size))
        self.lin_h = None
        if self.feedback:
            self.lin_h = Linear(out_channels, self.cell.num_seeing * out_channels, bias=False)
        self.bias = None
        if cell.biased:
            self.bias = torch.nn.Parameter(torch.empty(len(cell.biased) * out_channels))
        self.norm = torch.nn.LayerNorm(out_channels) if layer_norm else None
        # Which channels see x_{t−js}: all, if they are equally long.
        reaches = torch.tensor(lengths) > torch.arange(self.size).unsqueeze(1)
        self.register_buffer("reaches", None if min(lengths) == self.size else reaches, persistent=False)
        self.reset_parameters()

    def _scale(self, name: str, value: float | str | None, exists: bool, channels: int) -> Decay | None:
        if not exists:
            if value is not None:
                raise ValueError(f"{name} is not in variant {self.variant!r}, got {name}={value!r}")
            return None
        if value is None:
            value = 1.0 if self.cell.forget is None else 0.5
        if value != "learned" and not is_fraction(value):
            raise ValueError(f'{name} must be a float in [0, 1] or "learned", got {value!r}')
        return Decay(value, channels)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for lin in self.lins:
            self._weaken(lin)
        if self.bias is not None:
            uniform(self.out_channels, self.bias)
            if self.cell.forget == "gate":
                begin = self.cell.biased.index("forget") * self.out_channels
                with torch.no_grad():
                    self.bias[begin : begin + self.out_channels] += self.forget_bias

    def _weaken(self, lin: torch.nn.Module) -> None:
        """Make the weight smaller, as in a convolution: by the square root of the n of each channel."""
        weight = cast(Tensor, lin.weight)
        if not is_lazy(weight):
            factor: float | Tensor = self.size**-0.5
            if self.reaches is not None:
                factor = self.reaches.sum(0).repeat(len(self.cell.parts)).unsqueeze(1) ** -0.5
            with torch.no_grad():
                weight *= factor

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, tuple[Tensor, ...]]:
        shapes = self._shapes(steps, x)
        before = check_parts(type(self).__name__, state, shapes)
        bias: Tensor | None = self.bias
        if bias is not None and not self.cell.bias:  # c̃ has none
            bias = torch.nn.functional.pad(bias, (self.out_channels, 0))
        tokens = *self._read(x, steps, before.get("x")), bias
        scales = [0.0 if scale is None else scale() for scale in (self.scale_i, self.scale_f)]
        # c and h, behind their states.
        extended = {}
        if self.feedback or self.norm_state:
            weight = None if self.lin_h is None else cast(Tensor, self.lin_h.weight)
            states = before.get("c"), before.get("h")
            c, h = gated_scan(self.cell, *tokens, weight, steps, states, scales, self.norm, self.norm_state)
            extended, h = {"c": c, "h": h}, h[steps.num_strings :]
        else:  # all tokens side by side, but for the memory
            logits = self.cell.named(affine(*tokens))
            c, f = self.cell.new_and_kept(logits, scales)
            if self.cell.forget is not None:
                extended["c"] = decayed_scan(c, f, steps, before.get("c"))
                c = extended["c"][steps.num_strings :]
            h = self.cell.output_of(logits, c if self.norm is None else self.norm(c))
        after = {name: steps.last(value) for name, value in extended.items()}
        after["x"] = last_tokens(x, steps, (self.size - 1) * self.dilation, before.get("x"))
        return h, tuple(after[name] for name in shapes)

    def _read(self, x: Tensor, steps: Steps, before: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """What windows show, and the weight of all parts; or what filters have made of it."""
        if not self.syncs:
            return windows(x, steps, self.size, self.dilation, before), self._weight(x)
        # [2, parts · out_channels, …]: channels are mixed, each mixture is filtered, and two make a part.
        factors = zip(*(cast(SyncFilters, sync).factors() for sync in self.syncs), strict=True)
        mixtures, waves = (torch.cat(factor, 1).flatten(0, 1) for factor in factors)
        mixed = linear(x, mixtures).to(x.dtype)
        if before is not None:
            before = linear(before.flatten(0, 1), mixtures).to(x.dtype).view(*before.shape[:2], len(mixtures))
        made = filtered(mixed, waves, steps, self.dilation, before)
        return made.view(x.size(0), 2, len(mixtures) // 2).sum(1), None

    def _weight(self, x: Tensor) -> Tensor:
        """Of what windows show, ``[parts · out_channels, n · in_channels]``."""
        for lin in self.lins:
            if cast(Linear, lin).in_channels == -1:
                lin(x[:0])
                self._weaken(lin)
        weights = [cast(Tensor, lin.weight) for lin in self.lins]
        if self.reaches is not None:
            reaches = self.reaches.repeat(1, len(self.cell.parts)).unsqueeze(2)
            weights = [weight * reached for weight, reached in zip(weights, reaches, strict=True)]
        return weights[0] if self.size == 1 else torch.cat(weights, dim=1)

    def _shapes(self, steps: Steps, x: Tensor) -> dict[str, tuple[int, ...]]:
        """The parts of a state."""
        num_before = (self.size - 1) * self.dilation
        parts = {"c": self.cell.forget is not None, "h": self.feedback}
        shapes = {part: (steps.num_strings, self.out_channels) for part, there in parts.items() if there}
        return shapes | ({"x": (num_before, steps.num_strings, x.size(1))} if num_before else {})

    def __repr__(self) -> str:
        scales = {"sigma_i2": self.scale_i, "sigma_f2": self.scale_f}
        return shown(
            self,
            *("variant", "ngram", "layer_norm"),
            feedback=self.cell == VARIANTS[self.variant],
            filters="sync" if self.syncs else "free",
            **{name: None if scale is None else scale.decay for name, scale in scales.items()},
        )
