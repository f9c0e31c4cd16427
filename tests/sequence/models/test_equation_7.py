"""Eq. (7) of Liang et al. beside its sums: logits as sums of kernels with filters, whole and of low rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from wlkernelnn.sequence import (
    ArcCosineKernel,
    LanguageModel,
    LinearKernel,
    PolynomialKernel,
    RecurrentKernelMachine,
    TanhKernel,
)

V, D, K, SIGMAS = 7, 3, 5, (0.5, 0.4)
TOKENS = [1, 4, 0, 2]
KERNELS = {
    "linear": LinearKernel(),
    "polynomial": PolynomialKernel(3, 0.5),
    "arccos": ArcCosineKernel(1),
    "tanh": TanhKernel(),
}


def nested(q: Callable[[Tensor], Tensor], products: Sequence[Tensor]) -> Tensor:
    """Eq. (5): q of the newest inner product and of the kernel of all before it."""
    *before, newest = products
    inner = nested(q, before) if before else torch.zeros_like(newest)
    return q(SIGMAS[0] * newest + SIGMAS[1] * inner)


def kernels(model: LanguageModel, unit: bool, q: Callable[[Tensor], Tensor]) -> Tensor:
    """k(x̃_i * x_≤t) of every prefix and filter, ``[T, K]``."""
    x, filters = model.embedding.weight[TOKENS], model.encoder.lins[0].weight
    if unit:
        x, filters = (torch.nn.functional.normalize(rows, dim=1) for rows in (x, filters))
    return torch.stack([nested(q, list(x[: t + 1] @ filters.t())) for t in range(len(TOKENS))])


def encoder(name: str) -> RecurrentKernelMachine:
    return RecurrentKernelMachine(D, K, KERNELS[name], sigma_i2=SIGMAS[0], sigma_f2=SIGMAS[1])


@torch.no_grad()
@pytest.mark.parametrize("name", KERNELS)
def test_equation_7(name: str) -> None:
    """y_v = Σ_i A_vi k(x̃_i * x_≤t) + β_v."""
    model, kernel = LanguageModel(V, encoder(name), tied=False).double(), KERNELS[name]
    k = kernels(model, kernel.unit, kernel.of_sum)
    y = model.head.bias.repeat(len(TOKENS), 1)
    for v in range(V):
        for i in range(K):
            y[:, v] += model.head.weight[v, i] * k[:, i]
    torch.testing.assert_close(model(TOKENS, [0, len(TOKENS)])[0], y)


@torch.no_grad()
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("tied", "rank"), [(False, 2), (True, D)], ids=["untied", "tied"])
def test_its_low_rank_form(name: str, tied: bool, rank: int) -> None:
    """U = A E: y_v = Σ_j A_vj Σ_i E_ji k(x̃_i * x_≤t) + β_v, as of a whole U of this rank."""
    model, kernel = LanguageModel(V, encoder(name), tied=tied, low_rank=tied or rank).double(), KERNELS[name]
    a, beta = (model.embedding.weight, model.bias) if tied else (model.head.weight, model.head.bias)
    k = kernels(model, kernel.unit, kernel.of_sum)
    y = beta.repeat(len(TOKENS), 1)
    for v in range(V):
        for j in range(rank):
            for i in range(K):
                y[:, v] += a[v, j] * model.projection.weight[j, i] * k[:, i]
    torch.testing.assert_close(model(TOKENS, [0, len(TOKENS)])[0], y)

    whole = LanguageModel(V, encoder(name), tied=False).double()
    whole.encoder.load_state_dict(model.encoder.state_dict())
    for parameter, value in (
        (whole.embedding.weight, model.embedding.weight),
        (whole.head.weight, a @ model.projection.weight),
        (whole.head.bias, beta),
    ):
        parameter.copy_(value)
    torch.testing.assert_close(whole(TOKENS, [0, len(TOKENS)])[0], y)
    assert torch.linalg.matrix_rank(whole.head.weight) == rank
