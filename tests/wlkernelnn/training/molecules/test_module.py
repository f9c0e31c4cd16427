from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from tests.inputs.molecules import classification_set, regression_set, small_network
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.training import FitOptions
from wlkernelnn.training.classes import balanced_weights
from wlkernelnn.training.molecules.module import (
    learning_rate_factor,
    masked_loss,
    summed_loss,
)

NAN = float("nan")


def test_loss_of_regression() -> None:
    net = small_network(regression_set())
    net.target_std.fill_(2.0)
    out, y = torch.randn(5, 3), torch.randn(5, 3)
    y[0, 1] = y[3, 2] = NAN
    terms = [
        ((out[i, j] - y[i, j]) / 2.0) ** 2 for i in range(5) for j in range(3) if not math.isnan(y[i, j])
    ]
    assert len(terms) == 13
    torch.testing.assert_close(masked_loss(net, out, y), torch.stack(terms).mean())


def test_tasks_count_in_units_of_their_own_scale() -> None:
    net = small_network(regression_set())
    net.target_std = torch.tensor([1.0, 1000.0])
    out = torch.tensor([[1.0, 1000.0]])
    assert masked_loss(net, out, torch.zeros(1, 2)).item() == 1.0


def test_loss_of_classification() -> None:
    net = small_network(classification_set())
    out, y = torch.randn(6, 2), torch.randint(2, (6, 2)).float()
    y[2, 0] = y[5, 1] = NAN
    terms = []
    for i in range(6):
        for j in range(2):
            p = 1 / (1 + math.exp(-out[i, j]))
            if not math.isnan(y[i, j]):
                terms.append(-math.log(p if y[i, j] == 1 else 1 - p))
    assert masked_loss(net, out, y).item() == pytest.approx(sum(terms) / len(terms), rel=1e-5)


def of_classes(y: torch.Tensor) -> PackedGraphs:
    """Molecules with one target of the classes 0, 1, …"""
    return regression_set()[: len(y)].compact().with_targets(y, task="multiclass")


def test_loss_of_several_classes() -> None:
    y = torch.tensor([0.0, 2.0, NAN, 1.0, 2.0]).unsqueeze(1)
    net, out = small_network(of_classes(y)), torch.randn(5, 3)
    terms = [-out[i].log_softmax(0)[int(y[i, 0])] for i in (0, 1, 3, 4)]
    torch.testing.assert_close(masked_loss(net, out, y), torch.stack(terms).mean())
    weights = torch.tensor([[3.0], [0.0], [0.5]])
    expected = (3 * terms[0] + 0.5 * terms[1] + 0.5 * terms[3]) / 4
    torch.testing.assert_close(masked_loss(net, out, y, weights), expected)


def test_bounds_count_on_their_wrong_side() -> None:
    net = small_network(regression_set())
    net.target_std = torch.tensor([2.0])
    out, y = torch.tensor([[1.0], [9.0], [1.0], [9.0], [7.0], [7.0]]), torch.full((6, 1), 5.0)
    y[5] = NAN
    sides = torch.tensor([1, 1, -1, -1, 0, 1], dtype=torch.int8).unsqueeze(1)
    total, known = summed_loss(net, out, y, censored=sides)
    # At least 5: 1 is wrong. At most 5: 9 is wrong. Measured: 7 is wrong.
    assert (total.item(), known.item()) == (2.0**2 + 2.0**2 + 1.0, 5)


def test_balanced_weights() -> None:
    y = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, NAN], [0.0, NAN], [NAN, 1.0]])
    weights = balanced_weights(y, 2)
    expected = compute_class_weight("balanced", classes=np.arange(2), y=[0, 1, 0, 0])
    assert weights[:, 0].tolist() == pytest.approx(expected)
    assert weights[:, 1].tolist() == [0.0, 1.0]  # one class alone
    net = small_network(classification_set())
    out = torch.randn(5, 2)
    alone = masked_loss(net, out[:, :1], y[:, :1], weights[:, :1]).item()
    losses = torch.nn.functional.binary_cross_entropy_with_logits(out[:4, 0], y[:4, 0], reduction="none")
    assert alone == pytest.approx(((losses[0] + losses[2] + losses[3]) / 3 + losses[1]).item() / 2)


@pytest.mark.parametrize("loss", ["mve", "quantile"])
def test_losses_of_distributions_skip_missing_targets(loss: str) -> None:
    net = small_network(regression_set().with_targets(np.zeros((60, 2)), target_names=("a", "b")), loss=loss)
    out, y = (
        net.target(torch.randn(4, net.target.num_raw), torch.zeros(2), torch.ones(2)),
        torch.randn(4, 2),
    )
    each = net.target.losses(out, y, net.target_std)
    y[0, 1] = y[2, 0] = NAN
    torch.testing.assert_close(masked_loss(net, out, y), each[~y.isnan()].mean())


def test_loss_of_ordered_classes() -> None:
    y = torch.tensor([0.0, 2.0, NAN, 1.0, 2.0]).unsqueeze(1)
    net = small_network(regression_set()[:5].compact().with_targets(y, task="ordinal"))
    out = torch.randn(5, 2)
    each = torch.nn.functional.binary_cross_entropy_with_logits(
        out[[0, 1, 3, 4]], torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), reduction="none"
    ).sum(1)
    torch.testing.assert_close(masked_loss(net, out, y), each.mean())
    weighted = masked_loss(net, out, y, torch.tensor([[3.0], [0.0], [0.5]]))
    torch.testing.assert_close(weighted, (torch.tensor([3.0, 0.5, 0.0, 0.5]) * each).mean())


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_batch_without_targets(task: str) -> None:
    net = small_network(regression_set() if task == "regression" else classification_set())
    out = torch.randn(4, 1, requires_grad=True)
    loss = masked_loss(net, out, torch.full((4, 1), NAN))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.equal(out.grad, torch.zeros(4, 1))


# The schedule, in units of lr = 1e-3


def test_warm_up_rises_in_equal_steps() -> None:
    options = FitOptions(warmup_epochs=2, schedule="constant")
    factors = [learning_rate_factor(options, step, num_graphs=5 * 64) for step in range(12)]
    assert factors == pytest.approx([*(i / 10 for i in range(1, 11)), 1.0, 1.0])


def test_cosine_ends_at_the_smallest_rate() -> None:
    options = FitOptions(epochs=12, warmup_epochs=2, lr_min=1e-5)
    assert learning_rate_factor(options, 20, 640) == 1.0
    assert learning_rate_factor(options, 70, 640) == pytest.approx(0.5)
    assert learning_rate_factor(options, 45, 640) == pytest.approx(0.5 + math.sqrt(0.125))
    assert learning_rate_factor(options, 119, 640) == pytest.approx(0.01)
    assert learning_rate_factor(options, 500, 640) == pytest.approx(0.01)
    falling = [learning_rate_factor(options, step, 640) for step in range(20, 120)]
    assert falling == sorted(falling, reverse=True)


def test_exponential_steps_of_the_paper() -> None:
    """Adam 1e-3, × 0.9 every 100,000 samples until 5e-6: 51 steps, reached after 5.1 million samples."""
    options = FitOptions(batch_size=20, schedule="exponential", warmup_epochs=0, lr_min=5e-6)

    def factor_at(samples: int) -> float:
        return learning_rate_factor(options, samples // 20, num_graphs=20_000)

    assert factor_at(0) == factor_at(99_980) == 1.0
    assert factor_at(100_000) == factor_at(199_980) == pytest.approx(0.9)
    assert factor_at(1_000_000) == pytest.approx(0.9**10)
    assert factor_at(5_000_000) == pytest.approx(0.9**50)
    assert factor_at(5_100_000) == factor_at(9_000_000) == pytest.approx(0.005)


def test_exponential_steps_count_graphs() -> None:
    """Batches of 64 and of 1."""
    options = FitOptions(schedule="exponential", warmup_epochs=0, lr_decay=0.5, lr_decay_samples=65, lr_min=0)
    factors = [learning_rate_factor(options, step, num_graphs=65) for step in range(8)]
    assert factors == [0.5 ** (step // 2) for step in range(8)]


def test_constant() -> None:
    options = FitOptions(schedule="constant", warmup_epochs=0)
    assert {learning_rate_factor(options, step, 640) for step in (0, 1, 10_000)} == {1.0}
