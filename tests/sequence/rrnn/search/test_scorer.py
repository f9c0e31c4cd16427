from __future__ import annotations

import importlib

import pytest
import torch

from tests.inputs.strings import assert_same_with_gradients, normal
from wlkernelnn.sequence.rrnn.search.scorer import Scorer

module = importlib.import_module("wlkernelnn.sequence.rrnn.search.scorer")


def test_scores_are_those_of_two_layers() -> None:
    scorer, candidates = Scorer(3, 5).double(), normal(2, 4, 3)
    hidden = torch.relu(candidates @ scorer.lin.weight.t() + scorer.lin.bias)
    torch.testing.assert_close(scorer(candidates), hidden @ scorer.out.weight[0])


@pytest.mark.parametrize("part", ["lin", "out"])
def test_parametrizations_count(part: str) -> None:
    scorer, candidates = Scorer(3, 5).double(), normal(4, 3)
    linear = scorer.get_submodule(part)
    torch.nn.utils.parametrizations.weight_norm(linear)
    linear.parametrizations.weight.original0.data.mul_(-2)
    found = scorer(candidates)
    torch.nn.utils.parametrize.remove_parametrizations(linear, "weight")
    torch.testing.assert_close(found, scorer(candidates))


@pytest.mark.parametrize("size", [1, 4, 7, 8])
def test_parts_change_nothing(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART", 20)  # four rows of five numbers
    given = {"rows": normal(size, 3), "weight": normal(5, 3), "bias": normal(5), "out": normal(1, 5)}
    assert_same_with_gradients(
        lambda **leaves: [module._score(*leaves.values())[0]],
        lambda **leaves: [module._plain(**leaves)[0]],
        given,
    )


def test_candidates_without_gradients() -> None:
    scorer = Scorer(3, 5).double()
    scorer(normal(4, 3)).square().sum().backward()
    assert all(parameter.grad.any() for parameter in scorer.parameters())


@pytest.mark.parametrize("chosen", [[], [6], [0, 2, 3, 5, 6]])
def test_gradients_of_some_candidates(chosen: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART", 20)  # four rows of five numbers
    given = {"rows": normal(7, 3), "weight": normal(5, 3), "bias": normal(5), "out": normal(1, 5)}
    some = torch.tensor(chosen, dtype=torch.int64)
    assert_same_with_gradients(
        lambda **leaves: [module._score(*leaves.values())[0][some].sum()],
        lambda **leaves: [module._plain(**leaves)[0][some].sum()],
        given,
    )


def test_tiny_gradients_count_as_none_and_nan_as_it_is() -> None:
    scorer, candidates = Scorer(3, 5), torch.randn(4, 3)
    weights = torch.tensor([1e-33, 0.0, 1e-40, 1e-30])
    (scorer(candidates) * weights).sum().backward()
    found = scorer.out.weight.grad.clone()
    scorer.zero_grad()
    (scorer(candidates)[3] * 1e-30).backward()
    torch.testing.assert_close(found, scorer.out.weight.grad, rtol=1e-2, atol=0)
    found = Scorer(3, 5).half()
    (found(candidates.half()) * 1e-3).sum().backward()
    assert found.out.weight.grad.any()
    (scorer(candidates) * torch.tensor([0.0, torch.nan, 0.0, 0.0])).sum().backward()
    assert scorer.lin.weight.grad.isnan().any()


def test_gradients_of_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PART", 20)
    leaves = [normal(7, 3), normal(5, 3), normal(5), normal(1, 5)]
    for leaf in leaves:
        leaf.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda *values: module._score(*values)[0], leaves)
