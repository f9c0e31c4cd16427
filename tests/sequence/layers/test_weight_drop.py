from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch.nn.utils.parametrizations import weight_norm

from tests.checks.equations import randomize
from tests.inputs.strings import end_to_end, normal
from wlkernelnn.sequence import RKM, Stack, StringKernelConv, WeightDrop
from wlkernelnn.utils.files import read_tensors, write_tensors

D = 6
# The weight of h in the gate.
RECURRENT = "decay.lins.0.weight"


def layer() -> StringKernelConv:
    made = StringKernelConv(D, D, 1, feedback=True)
    randomize(made)
    return made


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return end_to_end([normal(length, D) for length in (5, 0, 3, 1)])


def test_evaluation_drops_nothing() -> None:
    plain, (x, ptr) = layer(), inputs()
    dropped = WeightDrop(plain, RECURRENT, 0.5).eval()
    for came, expected in zip(dropped(x, ptr), plain(x, ptr), strict=True):
        assert torch.equal(came, expected)


def test_one_mask_for_all_tokens_of_a_pass() -> None:
    """The same as the layer with one fixed weight of zeros and doubled values; another one each time."""
    plain, (x, ptr) = layer(), inputs()
    dropped = WeightDrop(plain, RECURRENT, 0.5)
    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        out, _ = dropped(x, ptr)
        torch.manual_seed(seed)
        weight = torch.nn.functional.dropout(plain.get_parameter(RECURRENT).detach(), 0.5)
        assert 0.2 < float((weight == 0).double().mean()) < 0.8
        fixed = copy.deepcopy(plain)
        fixed.get_parameter(RECURRENT).data = weight
        assert torch.equal(out, fixed(x, ptr)[0])
        seen.append(out)
    assert not torch.equal(*seen)
    assert not torch.equal(dropped.eval()(x, ptr)[0], seen[0])


def test_the_mean_over_masks_is_the_weight() -> None:
    """A layer that shows its weight: tokens are unit vectors, nothing is carried over."""
    plain = StringKernelConv(3, 4, 1, decay=0.0, normalize=False)
    dropped = WeightDrop(plain, "lins.0.weight", 0.25)
    mean = torch.stack([dropped(torch.eye(3).unsqueeze(0))[0][0] for _ in range(1500)]).mean(0)
    torch.testing.assert_close(mean, plain.lins[0].weight.t(), rtol=0.06, atol=0.0)


def test_gradients_are_those_of_what_is_left() -> None:
    plain, (x, ptr) = layer(), inputs()
    dropped = WeightDrop(plain, RECURRENT, 0.5)
    dropped(x, ptr)[0].sum().backward()
    gradient = plain.get_parameter(RECURRENT).grad
    assert gradient is not None
    assert 0.2 < float((gradient == 0).double().mean()) < 0.8
    assert all(parameter.grad is not None for parameter in dropped.parameters())


def test_weights_in_a_file_copies_and_new_draws(tmp_path: Path) -> None:
    (x, ptr), dropped = inputs(), WeightDrop(layer(), RECURRENT, 0.5)
    stack = Stack([dropped, WeightDrop(layer(), RECURRENT, 0.5)]).eval()
    write_tensors(tmp_path / "w.safetensors", stack.state_dict(), {})
    other = copy.deepcopy(stack)
    randomize(other)
    assert not torch.equal(other(x, ptr)[0], stack(x, ptr)[0])
    other.load_state_dict(read_tensors(tmp_path / "w.safetensors")[0])
    assert torch.equal(other(x, ptr)[0], stack(x, ptr)[0])
    before = dropped.model.get_parameter(RECURRENT).detach().clone()
    dropped.train().reset_parameters()
    assert not torch.equal(dropped.model.get_parameter(RECURRENT), before)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        WeightDrop(layer(), RECURRENT, 1.0)
    with pytest.raises(AttributeError, match="weight_hh"):
        WeightDrop(layer(), "weight_hh", 0.5)
    with pytest.raises(AttributeError, match="lins of StringKernelConv is no parameter"):
        WeightDrop(layer(), "lins", 0.5)
    with pytest.raises(ValueError, match=r"lins\.0\.weight has no shape yet: give RKM its in_channels"):
        WeightDrop(RKM(-1, 4), "lins.0.weight", 0.5)


def test_other_tensors_in_place_of_the_parameters() -> None:
    """As torch.func calls a model: with gradients of what it is given."""
    (x, ptr), dropped = inputs(), WeightDrop(layer(), RECURRENT, 0.5)
    given = {name: value.detach().clone().requires_grad_() for name, value in dropped.named_parameters()}
    found = []
    for call, leaves in (
        (lambda: dropped(x, ptr), list(dropped.parameters())),
        (lambda: torch.func.functional_call(dropped, given, (x, ptr)), list(given.values())),
    ):
        torch.manual_seed(1)
        out, _ = call()
        found.append((out, *torch.autograd.grad(out.sum(), leaves)))
    for came, expected in zip(*found, strict=True):
        assert torch.equal(came, expected)


def test_dropped_twice() -> None:
    (x, ptr), plain = inputs(), layer()
    twice = WeightDrop(WeightDrop(plain, RECURRENT, 0.5), f"model.{RECURRENT}", 0.5)
    torch.manual_seed(1)
    out, _ = twice(x, ptr)
    torch.manual_seed(1)
    weight = plain.get_parameter(RECURRENT).detach()
    for _ in range(2):
        weight = torch.nn.functional.dropout(weight, 0.5)
    plain.get_parameter(RECURRENT).data = weight
    assert torch.equal(out, plain(x, ptr)[0])


def test_normalised_weights() -> None:
    """The weight that is made of the parameters is dropped, not what it is made of."""
    (x, ptr), plain = inputs(), layer()
    fixed = copy.deepcopy(plain)
    gate = plain.decay.lins[0]
    weight_norm(gate)
    with torch.no_grad():
        gate.parametrizations.weight.original0.mul_(1.5)
    dropped = WeightDrop(plain, RECURRENT, 0.5)
    before = {name: value.detach().clone() for name, value in dropped.named_parameters()}
    torch.manual_seed(1)
    out, _ = dropped(x, ptr)
    torch.manual_seed(1)
    fixed.get_parameter(RECURRENT).data = torch.nn.functional.dropout(gate.weight.detach(), 0.5)
    torch.testing.assert_close(out, fixed(x, ptr)[0])
    out.sum().backward()
    (of_fixed,) = torch.autograd.grad(fixed(x, ptr)[0].sum(), fixed.get_parameter(RECURRENT))
    torch.manual_seed(1)
    expected = torch.autograd.grad(
        torch.nn.functional.dropout(gate.weight, 0.5), list(gate.parameters()), of_fixed
    )
    for parameter, gradient in zip(gate.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    assert {name: value.tolist() for name, value in dropped.named_parameters()} == {
        name: value.tolist() for name, value in before.items()
    }


@pytest.mark.parametrize("training", [False, True])
def test_hooks_of_the_model_are_called(training: bool) -> None:
    seen: list[torch.Tensor] = []
    model = WeightDrop(layer(), RECURRENT, 0.5).train(training)
    model.model.register_forward_hook(lambda _, __, out: seen.append(out[0]))
    out, _ = model(*inputs())
    torch.testing.assert_close(seen[0].sum(), out.sum())
    assert len(seen) == 1
