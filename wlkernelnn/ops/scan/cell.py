"""What a gated cell is made of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Cell:
    r"""A memory with gates: what the recurrences of :func:`gated_scan` differ in.

    .. math::
        c_t = i_t \odot \varphi(\tilde c_t) + f_t \odot c_{t-1} \qquad h_t = o_t \odot \psi(c_t)

    Attributes:
        input: i: ``"gate"``, ``"rest"`` (1 − f), or ``"constant"``.
        forget: f: ``"gate"``, ``"constant"``, or ``None`` (0: no memory).
        output: o is a gate, or else 1.
        squash: φ is tanh, or else the identity.
        squash_output: ψ is tanh, or else the identity.
        feedback: Who sees :math:`h_{t-1}`: ``"all"``, ``"gates"`` (not :math:`\tilde c_t`), or ``"none"``.
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


def tanh_if(wanted: bool, x: Tensor) -> Tensor:
    """φ and ψ of a cell."""
    return torch.tanh(x) if wanted else x
