"""The decay λ of a kernel network: constant, learned, or gated by the data."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn import Linear
from torch_geometric.nn.inits import reset

from wlkernelnn.utils.checks import check_finite, is_fraction


class Decay(torch.nn.Module):
    r"""The decay :math:`\lambda` of graph and string layers (Lei et al. 2017, sections 2 to 4).

    * a float in [0, 1]: a constant;
    * ``"learned"``: a vector :math:`\mathrm{sigmoid}(\theta) \in (0, 1)^d`, starting at 1/2;
    * ``"gated"``: :math:`s \cdot \mathrm{sigmoid}(\sum_i U_i a_i + b)` of inputs :math:`a_i`: the two ends of
      an edge, or a token and the state before it.

    A gate is computed in two steps, so that the products :math:`U_i a_i` happen where the :math:`a_i` live
    (at nodes) and only their sum where the gate lives (at edges): :meth:`project`, then :meth:`gate`.

    Args:
        decay: See above.
        channels: Width d of the states that are decayed.
        gate_inputs: Widths of :math:`a_1, a_2, …` (−1 = lazy); unused unless gated.
        gate_scale: The factor s; the authors' release uses 10.

    Raises:
        ValueError: ``decay`` is none of the above, or ``gate_scale`` is no finite number or given without a
            gate.
    """

    def __init__(
        self,
        decay: float | str,
        channels: int,
        gate_inputs: tuple[int, ...] = (),
        gate_scale: float = 1.0,
    ) -> None:
        super().__init__()
        if not is_fraction(decay) and not (isinstance(decay, str) and decay in ("learned", "gated")):
            raise ValueError(f'decay must be a float in [0, 1], "learned" or "gated", got {decay!r}')
        check_finite("gate_scale", gate_scale)
        if gate_scale != 1.0 and decay != "gated":
            raise ValueError(f'gate_scale={gate_scale} needs decay="gated", got decay={decay!r}')
        self.decay = decay
        self.gated = decay == "gated"
        self.gate_scale = gate_scale
        self.logit: torch.nn.Parameter | None = None
        self.lins = torch.nn.ModuleList()
        if decay == "learned":
            self.logit = torch.nn.Parameter(torch.empty(channels))
        elif self.gated:
            # One bias in all: it rides on the last input.
            last = len(gate_inputs) - 1
            self.lins.extend(Linear(size, channels, bias=i == last) for i, size in enumerate(gate_inputs))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.logit is not None:
            torch.nn.init.zeros_(self.logit)
        reset(self.lins)

    def forward(self) -> float | Tensor:
        """λ itself, where it does not depend on the data: a float or a vector ``[channels]``."""
        if self.logit is not None:
            return torch.sigmoid(self.logit)
        if isinstance(self.decay, str):
            raise TypeError("a gated decay has no value of its own: use project() and gate()")
        return self.decay

    def project(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The products U_i a_i (the bias in the last), each ``[…, channels]``."""
        return tuple(lin(value) for lin, value in zip(self.lins, inputs, strict=True))

    def gate(self, logits: Tensor) -> Tensor:
        """λ from the summed products."""
        gate = torch.sigmoid(logits)
        return gate if self.gate_scale == 1.0 else self.gate_scale * gate

    def __repr__(self) -> str:
        value = repr(self.decay) if isinstance(self.decay, str) else f"{self.decay:g}"
        scale = "" if self.gate_scale == 1.0 else f", gate_scale={self.gate_scale:g}"
        return f"{type(self).__name__}({value}{scale})"
