"""The recurrent kernel machine: a kernel between what was read and filters, computed as it is read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch_geometric.nn import Linear

from wlkernelnn.blocks.shown import shown
from wlkernelnn.ops.string import Levels, Steps, last_tokens, windows
from wlkernelnn.ops.string.equations import Index, by_step
from wlkernelnn.utils.checks import check_count, check_finite, check_widths

from .recurrent_kernels import RecurrentKernel, get_recurrent_kernel
from .string_model import State, StringModel, check_parts

# Vectors shorter than this are 0, as in torch.nn.functional.normalize.
_SHORTEST = 1e-12
# Weights of 1/3 that add up to 1, up to rounding.
_SLACK = 1e-6


class RecurrentKernelMachine(StringModel):
    r"""The general machine of `"Kernel-Based Approaches for Sequence Modeling: Connections to Neural Methods"
    <https://arxiv.org/abs/1910.04233>`_ (Liang et al. 2019, eq. (6), (8), (17)).

    .. math::
        h'_t = q(c_t) \qquad c_t = \sigma_i^2 \tilde c_t + \sigma_f^2 h'_{t-1} \qquad
        \tilde c_t = \sum_{j<n} \tilde X_j x_{t-j} + \tilde H h'_{t-1} \qquad h'_0 = 0

    Without :math:`\tilde H`, channel i of h' is the kernel between the string read so far and one of the same
    length whose tokens all are the filter :math:`\tilde x_i` (eq. (5)).

    The paper prints :math:`c_t = \tilde c_t + q(c_{t-1})`, which diverges for polynomial and exponential q;
    here all kernels have the σ's of its linear one, eq. (9), as in Hermans and Schrauwen 2012. For
    polynomial, Gaussian and arc-cosine kernels filters and :math:`[x_t, …, x_{t-n+1}, h'_{t-1}]` are scaled
    to length 1, and h' stays in [−1, 1], if a state that is given does: that of a graph whose nodes without
    successors are several is their sum, and may not. With the linear one it may grow if
    :math:`\sigma_i^2 \tilde H + \sigma_f^2` does.

    Args:
        in_channels: Width of the tokens, −1 for lazy.
        out_channels: Number of filters.
        kernel: q: ``"linear"``, ``"polynomial"`` (of degree 2), ``"gaussian"``, ``"arccos0"``, ``"arccos1"``,
            ``"tanh"`` (not a Mercer kernel), or a
            :class:`~wlkernelnn.sequence.RecurrentKernel`.
        ngram: Length n of the filters; before its first token a string is 0.
        feedback: Whether there is an :math:`\tilde H`.
        sigma_i2, sigma_f2: σ_i² and σ_f²: weights of what is new and of the memory; widths, for
            ``"gaussian"``.

    Shapes:
        - input: ``x [N, in_channels]`` with ``ptr [B+1]``, or ``x [B, T, in_channels]``; the state is h'
          ``[B, out_channels]``, or for n > 1 a tuple of h' and the n − 1 tokens before,
          ``[n − 1, B, in_channels]``
        - output: h' ``[N, out_channels]`` or ``[B, T, out_channels]``, and the state at the last tokens

    Raises:
        ValueError: An argument is out of its range, or inputs do not match.

    Trees and other directed acyclic graphs are read as well: in the place of :math:`h'_{t-1}` stands the sum
    over a node's predecessors, times ``edge_weight`` if there is one, in that of :math:`x_{t-j}` the sum over
    walks of j edges. Then h' is the kernel between the tree below a node and the filter's string. Kernels of
    unit vectors need :math:`|h'_{t-1}| \le 1`: the weights of the edges into a node must not exceed 1 in
    total, as those of a mean do not.

    The filters :math:`\tilde X_j` are ``lins[j].weight [out_channels, in_channels]``.
    """

    branches = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: str | RecurrentKernel = "gaussian",
        ngram: int = 1,
        feedback: bool = False,
        sigma_i2: float = 0.5,
        sigma_f2: float = 0.5,
    ) -> None:
        super().__init__()
        check_widths(in_channels, out_channels)
        ngram = check_count("ngram", ngram)
        check_finite("sigma_i2", sigma_i2)
        check_finite("sigma_f2", sigma_f2)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel = get_recurrent_kernel(kernel)
        self.kernel.check(sigma_i2, sigma_f2)
        self.ngram = ngram
        self.sigma_i2 = sigma_i2
        self.sigma_f2 = sigma_f2
        self.lins = torch.nn.ModuleList(Linear(in_channels, out_channels, bias=False) for _ in range(ngram))
        self.feedback = Linear(out_channels, out_channels, bias=False) if feedback else None
        self.reset_parameters()

    def run(self, x: Tensor, steps: Steps, state: State | None) -> tuple[Tensor, State]:
        shapes: dict[str, tuple[int, ...]] = {"h": (steps.num_strings, self.out_channels)}
        if self.ngram > 1:
            shapes["x"] = (self.ngram - 1, steps.num_strings, x.size(1))
        elif state is not None:
            state = (state,)
        parts = check_parts(type(self).__name__, state, shapes)
        if isinstance(steps, Levels) and self.kernel.unit:
            self._check_inflow(steps)
        h, before = parts.get("h", x.new_zeros(shapes["h"])), parts.get("x")
        seen = windows(x, steps, self.ngram, before=before)
        tokens = seen.split(x.size(1), 1)
        # Under autocast only products are of lower precision: h' adds up over many steps.
        products = torch.stack([lin(token) for lin, token in zip(self.lins, tokens, strict=True)]).sum(0)
        products = products.to(x.dtype)
        lengths = _lengths(seen)
        lins = [*self.lins, *([] if self.feedback is None else [self.feedback])]
        of_filters = torch.linalg.vector_norm(torch.cat([lin.weight for lin in lins], 1), dim=1)
        shortest = max(_SHORTEST, torch.finfo(x.dtype).tiny)  # in float16 the first would be 0 itself
        pieces = iter(steps.each(products, lengths))

        def step(before: Sequence[Tensor], t: Index, string: Index) -> Sequence[Tensor]:
            (memory,), (product, length) = before, next(pieces)
            if self.feedback is not None:
                product = product + self.feedback(memory).to(x.dtype)
                length = _lengths(torch.cat([length, memory], 1))
            if self.kernel.unit:
                norm = length * of_filters
                # A vector 0 has no direction, and no gradient.
                product = torch.where(norm <= shortest, 0.0, product / norm.clamp(min=shortest))
            return [self.kernel(product, memory, self.sigma_i2, self.sigma_f2)]

        (states,) = by_step(step, steps, [h], products)
        last = steps.last(states)
        after = last if self.ngram == 1 else (last, last_tokens(x, steps, self.ngram - 1, before))
        return states[steps.num_strings :] if steps.num_tokens else products, after

    def _check_inflow(self, levels: Levels) -> None:
        """Refuse graphs on which h' would leave [−1, 1]."""
        if (levels.inflow > 1 + _SLACK).any():
            node = int(levels.inflow.argmax())
            raise ValueError(
                f"{type(self).__name__}: {type(self.kernel).__name__} takes memories in [-1, 1], but the "
                f"edges into node {node} weigh {levels.inflow[node]:g} in total: give the graph edge_weight, "
                "at most 1 in total at every node, or take the linear or the tanh kernel"
            )

    def __repr__(self) -> str:
        return shown(self, "kernel", feedback=self.feedback is not None)


def _lengths(rows: Tensor) -> Tensor:
    """Euclidean, ``[N, 1]``; that of a row 0 is a constant, as its derivatives do not exist."""
    zero = (rows == 0).all(1, keepdim=True)
    return torch.linalg.vector_norm(rows.masked_fill(zero, 1.0), dim=1, keepdim=True).masked_fill(zero, 0.0)
