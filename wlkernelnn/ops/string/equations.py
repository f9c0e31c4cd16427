"""One step of each recurrence: for one token, or for the tokens of many strings that are a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from wlkernelnn.blocks.compose import COMPOSE

from .levels import Levels
from .steps import Steps


@dataclass(frozen=True)
class GatedCell:
    r"""A memory with gates: how the recurrences of :func:`gated_scan` differ.

    .. math::
        c_t = i_t \odot \varphi(\tilde c_t) + f_t \odot c_{t-1} \qquad h_t = o_t \odot \psi(c_t)

    Attributes:
        input: i: ``"gate"``, ``"rest"`` (1 − f), or ``"constant"``.
        forget: f: ``"gate"``, ``"constant"``, or ``None`` (0: no memory).
        output: o is a gate, or else 1.
        squash: φ is tanh, or else the identity.
        squash_output: ψ is tanh, or else the identity.
        feedback: Which parts see :math:`h_{t-1}`: ``"all"``, ``"gates"`` (not :math:`\tilde c_t`), or
            ``"none"``.
        bias: c̃ has a bias, as all gates have.
    """

    input: str
    forget: str | None
    output: bool
    squash: bool = False
    squash_output: bool = False
    feedback: str = "all"
    bias: bool = False

    @property
    def gates(self) -> tuple[str, ...]:
        """Which of i, f and o are gates."""
        are = {"input": self.input == "gate", "forget": self.forget == "gate", "output": self.output}
        return tuple(name for name, is_gate in are.items() if is_gate)

    @property
    def parts(self) -> tuple[str, ...]:
        """What is computed from tokens, side by side: c̃ and the gates."""
        return ("cell", *self.gates)

    @property
    def biased(self) -> tuple[str, ...]:
        """Which parts have a bias."""
        return self.parts if self.bias else self.gates

    @property
    def num_seeing(self) -> int:
        """How many of the parts, the last ones, see :math:`h_{t-1}`."""
        return {"all": len(self.parts), "gates": len(self.gates), "none": 0}[self.feedback]

    def named(self, parts: Tensor) -> dict[str, Tensor]:
        """The parts ``[…, parts · d]`` by name, each ``[…, d]``."""
        return dict(zip(self.parts, parts.chunk(len(self.parts), dim=-1), strict=True))

    def new_and_kept(
        self, logits: Mapping[str, Tensor], scales: Sequence[float | Tensor]
    ) -> tuple[Tensor, float | Tensor]:
        """i ⊙ φ(c̃), and f, of parts by name; i and f are ``scales`` where they are constant."""
        f: float | Tensor = 0.0
        if self.forget is not None:
            f = torch.sigmoid(logits["forget"]) if self.forget == "gate" else scales[1]
        i = 1 - f if self.input == "rest" else scales[0]
        if self.input == "gate":
            i = torch.sigmoid(logits["input"])
        return i * tanh_if(self.squash, logits["cell"]), f

    def output_of(self, logits: Mapping[str, Tensor], y: Tensor) -> Tensor:
        """h = o ⊙ ψ(y), of parts by name."""
        h = tanh_if(self.squash_output, y)
        return torch.sigmoid(logits["output"]) * h if self.output else h


def tanh_if(wanted: bool, x: Tensor) -> Tensor:
    """φ and ψ of a cell."""
    return torch.tanh(x) if wanted else x


# λ of all channels, of each, or of each token and channel.
Decay = float | Tensor
# Which token and which string, or the tokens of a step and the strings that have one.
Index = int | slice | Tensor
# From what strings carry, each ``[…, d]``, to what they carry after the tokens.
Step = Callable[[Sequence[Tensor], Index, Index], Sequence[Tensor]]


def ngram_step(u: Sequence[Tensor], decay: Decay, compose: str, normalize: bool) -> Step:
    """One step of :func:`ngram_scan`: the levels are carried."""

    def step(c: Sequence[Tensor], t: Index, string: Index) -> Sequence[Tensor]:
        of_token = decay[t] if isinstance(decay, Tensor) and decay.dim() == 2 else decay
        return _levels(c, [u_j[t] for u_j in u], of_token, compose, normalize)

    return step


def feedback_step(
    u: Sequence[Tensor],
    logits: Tensor,
    weight: Tensor,
    compose: str = "mul",
    normalize: bool = True,
    mix: Tensor | None = None,
    act: Callable[[Tensor], Tensor] | None = None,
    carry: tuple[Tensor, Tensor] | None = None,
    mask: Tensor | None = None,
) -> Step:
    """One step of :func:`feedback_scan`: the levels and h are carried."""

    def step(before: Sequence[Tensor], t: Index, string: Index) -> Sequence[Tensor]:
        *c, h = before
        seen = h if mask is None else mask[string] * h
        decay = torch.sigmoid(logits[t] + linear(seen, weight))
        c = _levels(c, [u_j[t] for u_j in u], decay, compose, normalize)
        h = c[-1] if mix is None else mixed(mix, c)
        h = h if act is None else act(h)
        if carry is not None:
            f, x = carry[0][t], carry[1][t]
            h = f * (h if mask is None else mask[string] * h) + (1 - f) * x
        return [*c, h]

    return step


def gated_step(
    cell: GatedCell,
    parts: Tensor,
    weight: Tensor | None,
    scales: Sequence[float | Tensor],
    norm: Callable[[Tensor], Tensor] | None,
    norm_state: bool,
) -> Step:
    """One step of :func:`gated_scan`, with the parts of tokens ``[N, parts · d]``: c and h are carried."""

    def step(before: Sequence[Tensor], t: Index, string: Index) -> Sequence[Tensor]:
        c, h = before
        logits = parts[t]
        if weight is not None:
            blind, seeing = logits.split([parts.size(1) - weight.size(0), weight.size(0)], dim=-1)
            logits = torch.cat([blind, seeing + linear(h, weight)], dim=-1)
        part = cell.named(logits)
        new, f = cell.new_and_kept(part, scales)
        c = new + f * c
        y = c if norm is None else norm(c)
        return y if norm_state else c, cell.output_of(part, y)

    return step


def mixed(mix: Tensor, c: Sequence[Tensor]) -> Tensor:
    r""":math:`\sum_j a_j \odot c_j`."""
    return torch.stack([a * c_j for a, c_j in zip(mix, c, strict=True)]).sum(0)


def _levels(
    c: Sequence[Tensor], u: Sequence[Tensor], decay: Decay, compose: str, normalize: bool
) -> list[Tensor]:
    scale = 1 - decay if normalize else 1
    new = [u[0], *(COMPOSE[compose](below, u_j) for below, u_j in zip(c, u[1:], strict=False))]
    return [decay * c_j + scale * new_j for c_j, new_j in zip(c, new, strict=True)]


def by_step(step: Step, steps: Steps, states: Sequence[Tensor | None], like: Tensor) -> tuple[Tensor, ...]:
    """What strings carry ``[B + N, d]``, in step order, behind the ``states [B, d]`` that they begin with.

    ``None`` is 0, like ``like [..., d]``.
    """
    zero = like.new_zeros(steps.num_strings, like.size(-1))
    rows: list[Sequence[Tensor]] = [[zero if state is None else state for state in states]]
    if isinstance(steps, Levels):
        return steps.run(step, rows[0])
    begin = 0
    for count in steps.counts:
        before = [value[:count] for value in rows[-1]]
        rows.append(step(before, slice(begin, begin + count), slice(0, count)))
        begin += count
    return tuple(torch.cat(values) for values in zip(*rows, strict=True))
