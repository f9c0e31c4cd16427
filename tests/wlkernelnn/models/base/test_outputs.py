"""What the numbers of heads mean, and their losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import norm
from sklearn.metrics import mean_pinball_loss

from tests.inputs.molecules import regression_set, small_network
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.models.base.outputs import Levels, MeanVariance, Quantiles, outputs_of

ONE, ZERO = torch.ones(1), torch.zeros(1)


def minimised(outputs: torch.nn.Module, y: torch.Tensor) -> torch.Tensor:
    """What a head without inputs gives after it was trained on targets ``[n, 1]``."""
    raw = torch.linspace(-0.1, 0.1, outputs.num_raw).unsqueeze(0).requires_grad_()
    optimizer = torch.optim.Adam([raw, *outputs.parameters()], 0.05)
    for _ in range(250):
        optimizer.zero_grad()
        out = outputs(raw, ZERO, ONE)
        outputs.losses(out.expand(len(y), *out.shape[1:]), y, ONE).mean().backward()
        optimizer.step()
    return outputs(raw, ZERO, ONE).detach()[0]


def test_what_losses_learn() -> None:
    y = torch.from_numpy(np.random.default_rng(0).gamma(2.0, 1.0, (501, 1))).float()
    assert minimised(MeanVariance(), y)[0].tolist() == pytest.approx(
        [y.mean().item(), y.std().item()], rel=0.01
    )
    levels = (0.1, 0.5, 0.8)
    found = minimised(Quantiles(1, levels), y)[0]
    assert found.tolist() == pytest.approx(np.quantile(y.numpy(), levels), abs=0.05)
    classes = torch.tensor([0.0] * 10 + [1.0] * 30 + [2.0] * 5).unsqueeze(1)
    outputs = Levels(3)
    assert outputs.predictions(minimised(outputs, classes)[None])[0].tolist() == pytest.approx(
        [10 / 45, 30 / 45, 5 / 45], abs=0.01
    )


def test_likelihood_of_values_and_bounds() -> None:
    y, std = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([2.0])
    out = torch.tensor([[[1.5, 0.5]], [[1.0, 4.0]], [[2.0, 1.0]]])
    sides = torch.tensor([[0], [1], [-1]], dtype=torch.int8)
    mean, deviation = out[:, 0].T.numpy()
    # In units of the targets' deviations, without log √2π; beyond 2, and below 3.
    expected = [
        -norm.logpdf(1, mean[0], deviation[0]) - np.log(np.sqrt(2 * np.pi)) - np.log(2),
        -norm.logsf(2, mean[1], deviation[1]),
        -norm.logcdf(3, mean[2], deviation[2]),
    ]
    assert MeanVariance().losses(out, y, std, sides).flatten().tolist() == pytest.approx(expected, rel=1e-5)


def test_pinball_loss_and_order() -> None:
    levels, outputs = (0.05, 0.5, 0.9), Quantiles(2, (0.05, 0.5, 0.9))
    raw, y = torch.randn(20, 6), torch.randn(20, 2)
    mean, std = torch.tensor([1.0, -1.0]), torch.tensor([2.0, 0.5])
    out = outputs(raw, mean, std)
    assert (out.diff(dim=2) >= 0).all()
    expected = [
        np.mean([mean_pinball_loss(y[:, t], out[:, t, q], alpha=a) for q, a in enumerate(levels)])
        / std[t].item()
        for t in range(2)
    ]
    assert outputs.losses(out, y, std).mean(0).tolist() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(outputs.predictions(out), out[..., 1])
    width = (out[..., 2] - out[..., 0]) / (norm.ppf(0.9) - norm.ppf(0.05))
    torch.testing.assert_close(outputs.variances(out), width**2)


def test_levels_have_probabilities() -> None:
    outputs = Levels(4)
    with torch.no_grad():
        outputs.thresholds.copy_(torch.tensor([-1.0, 2.0, 0.5]))  # not in order
    out = outputs(torch.randn(5, 1), ZERO, ONE)
    p = outputs.predictions(out)
    assert (p > 0).all()
    torch.testing.assert_close(p.sum(1), torch.ones(5))
    torch.testing.assert_close(p[:, 2:].sum(1), out[:, 1].sigmoid())  # P(y ≥ 2)
    terms = [torch.nn.functional.logsigmoid(sign * out[0, k]) for k, sign in enumerate((1, 1, -1))]
    torch.testing.assert_close(outputs.losses(out[:1], torch.tensor([[2.0]]), ONE)[0, 0], -sum(terms))
    outputs.fit_frequencies(torch.tensor([0.0, 1.0, 1.0, 3.0, float("nan")]))
    frequencies = outputs.predictions(outputs(torch.zeros(1, 1), ZERO, ONE))[0]
    assert frequencies.tolist() == pytest.approx([1.5 / 6, 2.5 / 6, 0.5 / 6, 1.5 / 6])


def of_levels(count: int = 30) -> PackedGraphs:
    y = np.arange(count, dtype=float)[:, None] % 3
    return regression_set()[:count].compact().with_targets(y, task="ordinal", classes=("a", "b", "c"))


@pytest.mark.parametrize("kind", ["mve", "quantile", "ordinal"])
def test_networks(kind: str) -> None:
    data = of_levels() if kind == "ordinal" else regression_set()[:30]
    net = small_network(data, **({} if kind == "ordinal" else {"loss": kind})).eval()
    (batch,) = PackedLoader(data, 30)
    with torch.no_grad():
        out, predicted = net(batch), net.predict(batch)
        less = net.contributions(batch)
    assert out.shape[1:] == {"mve": (1, 2), "quantile": (1, 3), "ordinal": (2,)}[kind]
    assert predicted.shape == (30, 3 if kind == "ordinal" else 1)
    assert less.shape == (batch.num_nodes, 1)
    assert torch.equal(predicted, net.predictions(out))
    again = GraphKernelNetwork(**net.config)
    again.load_state_dict(net.state_dict())
    assert torch.equal(again.eval().predict(batch), predicted)


def test_contributions_are_of_the_mean() -> None:
    """A molecule of one atom: without it, the head reads zeros."""
    data = regression_set()[:10]
    net = small_network(data, loss="mve", norm=False).eval()
    from wlkernelnn.datasets import featurize

    (batch,) = PackedLoader(featurize(["C"], num_workers=0)[0], 1)
    with torch.no_grad():
        empty = net.predict_vectors(torch.zeros(1, net.embedding_channels))
        torch.testing.assert_close(net.contributions(batch), net.predict(batch) - empty)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "classification", "loss": "mve"}, "loss='mve' is of numbers"),
        ({"loss": "huber"}, "loss must be one of squared, mve, quantile"),
        ({"loss": "mve", "quantiles": (0.1, 0.5, 0.9)}, "quantiles go with loss='quantile', got loss='mve'"),
        ({"loss": "quantile", "quantiles": (0.1, 0.9)}, r"with 0\.5 .* got 0\.1 0\.9"),
        ({"loss": "quantile", "quantiles": (0.0, 0.5, 0.9)}, "above 0, below 1 and rising"),
        ({"loss": "quantile", "quantiles": (0.9, 0.5, 0.1)}, "above 0, below 1 and rising"),
        ({"loss": "quantile", "quantiles": (0.5, 0.9)}, "others on both sides"),
        ({"loss": "quantile", "quantiles": ("a", 0.5, 0.9)}, "quantiles must be a finite number, got 'a'"),
    ],
)
def test_refused(given: dict[str, object], message: str) -> None:
    arguments = {"task": "regression", "num_tasks": 1, "loss": "squared", "quantiles": None}
    with pytest.raises(ValueError, match=message):
        outputs_of(**arguments | given)
