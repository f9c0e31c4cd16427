"""Wavelets as filters: their equation, their number of parameters, and what they are drawn like."""

from __future__ import annotations

import math

import pytest
import torch

from tests.checks.equations import randomize
from wlkernelnn.sequence import RKM, SyncFilters


@pytest.mark.parametrize("ngram", [1, 4, 5])
def test_equation(ngram: int) -> None:
    filters = SyncFilters(3, 2, ngram)
    randomize(filters)
    weight = filters().detach()
    assert weight.shape == (2, 3, ngram)
    alpha, phi, omega = (value.detach() for value in (filters.alpha, filters.phi, filters.omega))
    for k in range(2):
        beta = math.log1p(math.exp(float(filters.beta_raw[k].detach())))
        for c in range(3):
            for j in range(ngram):
                t = j - (ngram - 1) / 2
                expected = alpha[k, c] * torch.cos(omega[k] * t + phi[k, c]) * math.exp(-beta * t * t)
                torch.testing.assert_close(weight[k, c, j], expected)


@pytest.mark.parametrize("ngram", [1, 4, 5])
def test_factors(ngram: int) -> None:
    filters = SyncFilters(3, 2, ngram).double()
    randomize(filters)
    mixtures, waves = filters.factors()
    assert (mixtures.shape, waves.shape) == ((2, 2, 3), (2, 2, ngram))
    torch.testing.assert_close(torch.einsum("skc,skn->kcn", mixtures, waves), filters())


@pytest.mark.parametrize("ngram", [1, 5, 40])
@pytest.mark.parametrize(("variant", "sets"), [("cnn", 1), ("gated_cnn", 2), ("rkm_cifg", 3), ("lstm", 4)])
def test_parameters(ngram: int, variant: str, sets: int) -> None:
    """2KC + 2K whatever n, for c̃ and for each gate."""
    channels, number = 11, 30
    assert sum(p.numel() for p in SyncFilters(channels, number, ngram).parameters()) == 720
    model = RKM(channels, number, variant, ngram, filters="sync")
    assert sum(p.numel() for p in model.syncs.parameters()) == sets * 720
    assert not model.lins


def test_filters_are_drawn_as_strong_as_free_ones() -> None:
    torch.manual_seed(0)
    filters = SyncFilters(6, 4000, 40)
    energy = filters().detach().square().sum(2).mean()
    torch.testing.assert_close(float(energy), 1 / (3 * 6), rtol=0.1, atol=0)
    assert filters.omega.min() > 0
    assert filters.omega.max() < math.pi
    width = (2 * torch.nn.functional.softplus(filters.beta_raw.detach())).rsqrt()
    assert width.min() > 40 / 8 - 1e-3
    assert width.max() < 40 / 2 + 1e-3


def test_drawn_in_half_precision() -> None:
    filters = SyncFilters(2, 300, 1).half()
    filters.reset_parameters()
    assert filters.beta_raw.isfinite().all()
    assert filters.alpha.isfinite().all()


def test_repr() -> None:
    assert repr(SyncFilters(11, 30, 40)) == "SyncFilters(11, 30, ngram=40)"


@pytest.mark.parametrize("name", ["in_channels", "out_channels", "ngram"])
def test_bad_arguments(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got 0"):
        SyncFilters(**{"in_channels": 1, "out_channels": 1, "ngram": 1, name: 0})
    with pytest.raises(ValueError, match=rf"{name} must be an integer of at least 1, got 2\.5"):
        SyncFilters(**{"in_channels": 1, "out_channels": 1, "ngram": 1, name: 2.5})
