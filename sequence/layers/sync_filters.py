"""Wavelets as filters of signals."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from wlkernelnn.utils.checks import check_count


class SyncFilters(torch.nn.Module):
    r"""Filters of an n-gram that are Morlet wavelets, as of SyncNet (Liang et al. 2019, appendix A).

    .. math::
        W_{kc}(t) = \alpha_{kc} \cos(\omega_k t + \phi_{kc}) \exp(-\beta_k t^2)

    on a grid of the window's n samples with 0 in its middle: :math:`t = -(n-1)/2, …, (n-1)/2`. A filter has
    one frequency :math:`\omega_k` (radians per sample) and one envelope :math:`\beta_k > 0` (a softplus) over
    all channels, and an amplitude and a phase in each: 2KC + 2K parameters, whatever n.

    At first frequencies lie anywhere below half the rate of the samples, and phases anywhere; the standard
    deviation :math:`1 / \sqrt{2 \beta_k}` of the envelope is between n / 8 and n / 2 samples, and amplitudes
    make a filter as strong as a free one.

    Args:
        in_channels: Number C of channels.
        out_channels: Number K of filters.
        ngram: Length n of the filters, in samples.

    Shapes:
        - output: ``[K, C, n]``, in the order of time, as a convolution takes it

    Raises:
        ValueError: An argument is no integer of at least 1.
    """

    grid: Tensor

    def __init__(self, in_channels: int, out_channels: int, ngram: int) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("out_channels", out_channels), ("ngram", ngram)):
            check_count(name, value)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.ngram = ngram
        self.alpha = torch.nn.Parameter(torch.empty(out_channels, in_channels))
        self.phi = torch.nn.Parameter(torch.empty(out_channels, in_channels))
        self.omega = torch.nn.Parameter(torch.empty(out_channels))
        self.beta_raw = torch.nn.Parameter(torch.empty(out_channels))
        self.register_buffer("grid", torch.arange(ngram) - (ngram - 1) / 2, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.omega.uniform_(0, math.pi)
            self.phi.uniform_(-math.pi, math.pi)
            width = self.ngram * torch.empty_like(self.beta_raw).uniform_(1 / 8, 1 / 2)
            beta = 0.5 / width.square()
            self.beta_raw.copy_(beta + (-(-beta).expm1()).log())  # softplus(beta_raw) = beta
            # The squares of a filter's values in a channel sum up to 1 / 3C, as those of a convolution drawn
            # uniformly from ± 1 / sqrt(nC) do; cos² is 1/2 on average.
            energy = self._envelope().square().sum(1, keepdim=True) / 2
            self.alpha.uniform_(-1, 1).div_((self.in_channels * energy).sqrt())

    def _envelope(self) -> Tensor:
        return torch.exp(-softplus(self.beta_raw).unsqueeze(1) * self.grid.square())

    def factors(self) -> tuple[Tensor, Tensor]:
        r"""The filters as sums of two products, by :math:`\cos(a + b) = \cos a \cos b - \sin a \sin b`.

        The factors are mixtures of channels ``[2, K, C]``, and waves ``[2, K, n]`` in the order of time.
        """
        mixtures = self.alpha * torch.stack([torch.cos(self.phi), -torch.sin(self.phi)])
        angle = self.omega.unsqueeze(1) * self.grid
        return mixtures, self._envelope() * torch.stack([torch.cos(angle), torch.sin(angle)])

    def forward(self) -> Tensor:
        angle = self.omega.view(-1, 1, 1) * self.grid + self.phi.unsqueeze(2)
        return self.alpha.unsqueeze(2) * torch.cos(angle) * self._envelope().unsqueeze(1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.in_channels}, {self.out_channels}, ngram={self.ngram})"
