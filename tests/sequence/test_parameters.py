"""Parameters of every sequence model: drawn, kept, copied, and lazy."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.checks.sequence_models import ALL_MODELS, LAZY_MODELS, D, Make, drawn, some
from tests.inputs.strings import end_to_end
from wlkernelnn.sequence.layers.string_model import learn_width
from wlkernelnn.utils.files import read_tensors, write_tensors


@ALL_MODELS
def test_reset_draws_everything_again(make: Make) -> None:
    model = make(D)

    def again(seed: int) -> dict[str, Tensor]:
        for parameter in model.parameters():
            torch.nn.init.constant_(parameter, float("nan"))
        torch.manual_seed(seed)
        model.reset_parameters()
        return {name: value.detach().clone() for name, value in model.named_parameters()}

    first, same, other = again(1), again(1), again(2)
    for name, value in first.items():
        assert not value.isnan().any(), f"{name} keeps its old value"
        assert torch.equal(value, same[name])
        assert torch.equal(value, other[name]) == name.endswith(("logit", "mix", "norm.weight", "norm.bias"))


@ALL_MODELS
def test_state_travels_without_pickle(make: Make, tmp_path: Path) -> None:
    model, (x, ptr) = drawn(make).float(), end_to_end(some())
    write_tensors(tmp_path / "state.safetensors", model.state_dict(), {})
    fresh = make(D).eval()
    fresh.load_state_dict(read_tensors(tmp_path / "state.safetensors")[0])
    # Products of matrices may be rounded otherwise where they lie otherwise in memory.
    torch.testing.assert_close(fresh(x.float(), ptr)[0], model(x.float(), ptr)[0])


@LAZY_MODELS
@pytest.mark.parametrize("copied", [False, True], ids=["itself", "its_copy"])
def test_lazy_widths(make: Make, copied: bool) -> None:
    sized, lazy = make(D), make(-1).double()
    if copied:
        lazy = copy.deepcopy(lazy)
    out, _ = lazy(*end_to_end(some()))
    assert out.dtype == torch.float64
    shapes = {name: (parameter.shape, torch.float64) for name, parameter in sized.named_parameters()}
    assert {name: (p.shape, p.dtype) for name, p in lazy.named_parameters()} == shapes


@LAZY_MODELS
def test_widths_learned_without_tokens(make: Make) -> None:
    model = make(-1).double()
    learn_width(model, D)
    assert {name: p.shape for name, p in model.named_parameters()} == {
        name: p.shape for name, p in make(D).named_parameters()
    }
    assert model(*end_to_end(some()))[0].isfinite().all()


@LAZY_MODELS
def test_lazy_models_load(make: Make) -> None:
    model, lazy, (x, ptr) = drawn(make).float(), make(-1).eval(), end_to_end(some())
    lazy.load_state_dict(model.state_dict())
    assert torch.equal(lazy(x.float(), ptr)[0], model(x.float(), ptr)[0])


@ALL_MODELS
def test_copies_are_independent(make: Make) -> None:
    model, (x, ptr) = drawn(make), end_to_end(some())
    out, _ = model(x, ptr)
    other = copy.deepcopy(model)
    assert torch.equal(other(x, ptr)[0], out)
    randomize(other)
    assert torch.equal(model(x, ptr)[0], out)
    assert not torch.equal(other(x, ptr)[0], out)
