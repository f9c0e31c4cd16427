"""Scores of networks by the labels of strings."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wlkernelnn.datasets import PackedStrings, StringLoader
from wlkernelnn.utils.checks import check_one_of
from wlkernelnn.utils.modes import evaluating

SCORES = ("accuracy", "bpc", "perplexity")
EVALUATION_BATCH = 256


@torch.no_grad()
def score_strings(network: torch.nn.Module, strings: PackedStrings, metric: str) -> float:
    """Score a network on strings with int64 classes ``y``, in evaluation mode on the device where it is.

    Network and metric are those of :func:`~wlkernelnn.training.fit_trees`.

    Raises:
        ValueError: An unknown metric, no strings, or classes for which the network has no logit.
    """
    check_one_of("metric", metric, SCORES)
    if not len(strings):
        raise ValueError(f"the {metric} of no strings is not defined")
    device = next(network.parameters()).device
    totals = torch.zeros(3, dtype=torch.float64)
    with evaluating(network):
        for batch in StringLoader(strings, EVALUATION_BATCH, num_replicas=1):
            logits = network(batch.x.to(device), batch.ptr.to(device))
            totals += label_totals(logits, batch.y.to(device))
    return label_score(totals, metric)


def single(logits: Tensor) -> Tensor:
    """Logits of a half type in float32, in which sums over many tokens are right; others as they are."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def negative_log_likelihood(logits: Tensor, targets: Tensor) -> Tensor:
    """Summed over all tokens."""
    logits = single(logits.flatten(0, 1))
    return torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum")


def label_nll(logits: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood of all labels together."""
    labels, num_classes = y.flatten(), logits.size(1)
    # torch would ignore the label -100.
    low, high = labels.aminmax() if labels.numel() else (0, 0)
    if low < 0 or high >= num_classes:
        raise ValueError(f"strings have classes {int(low)} … {int(high)}, the network 0 … {num_classes - 1}")
    return torch.nn.functional.cross_entropy(single(logits), labels, reduction="sum")


def label_totals(logits: Tensor, y: Tensor) -> Tensor:
    """Negative log-likelihood, number of labels that are the most probable, number of labels: ``[3]``."""
    right = (logits.argmax(1) == y.flatten()).sum()
    return torch.tensor([float(label_nll(logits, y)), float(right), y.numel()], dtype=torch.float64)


def label_score(totals: Tensor, metric: str) -> float:
    """A score of :data:`SCORES` from the sum of :func:`label_totals`."""
    nll, right, count = totals.tolist()
    if metric == "accuracy":
        return right / count
    return nll / count / math.log(2) if metric == "bpc" else perplexity_of(nll / count)


def perplexity_of(nll: float) -> float:
    """exp of the negative log-likelihood of a token; at most exp(700), however bad the model."""
    return math.exp(min(nll, 700.0))
