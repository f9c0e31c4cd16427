"""That the laws of sequence models hold for one that keeps them, and notice what breaks them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from wlkernelnn.testing import assert_layouts_agree, assert_resumes, assert_strings_independent


def strings() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(length, 2, dtype=torch.float64, generator=generator) for length in (3, 0, 1, 2)]


def sums(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    """The sum of all tokens so far: string by string, so that nothing can go wrong."""
    parts = list(x) if ptr is None else x.split(ptr.diff().tolist())
    before = x.new_zeros(len(parts), x.size(-1)) if state is None else state
    out = [part.cumsum(0) + start for part, start in zip(parts, before, strict=True)]
    last = [part[-1] if len(part) else start for part, start in zip(out, before, strict=True)]
    return (torch.stack(out) if ptr is None else torch.cat(out)), torch.stack(last)


def nested(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Any]:
    """The same with a state of two parts."""
    out, last = sums(x, ptr, None if state is None else state[0])
    return out, (last, last.expand(3, -1, -1))


def leaking(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    """A little of every string's last token goes to all."""
    out, last = sums(x, ptr, state)
    return out + 1e-8 * last.sum(), last


def masking(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    """Other strings are multiplied by 0, which NaN survives."""
    out, last = sums(x, ptr, state)
    return out + 0 * x.sum(), last


def looking_ahead(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    return sums(x.flip(0), ptr, state)


def forgetting(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    """An empty string loses its state."""
    out, last = sums(x, ptr, state)
    assert ptr is not None
    return out, last * (ptr.diff() > 0).unsqueeze(1)


def padding(x: Tensor, ptr: Tensor | None = None, state: Any = None) -> tuple[Tensor, Tensor]:
    """Something else without ptr."""
    out, last = sums(x, ptr, state)
    return out, last * (1 + 1e-8) if ptr is None else last


@pytest.mark.parametrize("model", [sums, nested])
def test_laws(model: Callable[..., Any]) -> None:
    assert assert_layouts_agree(model, torch.stack(strings()[:1] * 2)) < 1e-12
    assert assert_strings_independent(model, strings()) < 1e-12
    assert assert_resumes(model, strings()) < 1e-12
    assert assert_resumes(model, strings(), cuts=[2, 0, 0, 2]) < 1e-12


def test_layouts_that_disagree() -> None:
    with pytest.raises(AssertionError, match="strings end to end: relative error"):
        assert_layouts_agree(padding, torch.ones(2, 3, 2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("model", "message"),
    [(leaking, "string 0 beside the others: relative error"), (masking, "the result is not finite")],
    ids=["leaking", "masking"],
)
def test_strings_that_meet(model: Callable[..., Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_strings_independent(model, strings())


@pytest.mark.parametrize("model", [forgetting, looking_ahead])
def test_reading_that_cannot_be_interrupted(model: Callable[..., Any]) -> None:
    with pytest.raises(AssertionError, match="interrupted at"):
        assert_resumes(model, strings())


def test_modes_are_as_they_were() -> None:
    class Model(torch.nn.Module):
        def forward(self, *arguments: Any) -> Any:
            assert not self.training
            return sums(*arguments)

    model = Model()
    assert_strings_independent(model, strings())
    assert model.training


def test_nothing_to_check() -> None:
    for assertion in (assert_strings_independent, assert_resumes):
        with pytest.raises(ValueError, match="strings holds no token"):
            assertion(sums, [torch.zeros(0, 2)])
    with pytest.raises(ValueError, match="strings holds no token"):
        assert_layouts_agree(sums, torch.zeros(2, 0, 2))
