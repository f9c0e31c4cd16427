"""Every layer and every operation of strings under everything of PyTorch that records or transforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.checks.equations import randomize
from tests.checks.sequence_models import MODELS, SIZED, D
from tests.checks.tracers import COMPILERS, QUIET, TRACERS, compiles_transforms
from tests.inputs.strings import normal
from wlkernelnn.ops.string import (
    Steps,
    decayed_scan,
    feedback_scan,
    filtered,
    gated_scan,
    last_tokens,
    ngram_scan,
    windows,
)
from wlkernelnn.sequence import RKM, RRNN, RRNNGRU
from wlkernelnn.sequence.layers.rkm import VARIANTS

pytestmark = QUIET

# Every step is many operations: the quickest backend.
WAYS = TRACERS | COMPILERS | {"compiled transforms": partial(compiles_transforms, backend="eager")}
Call = Callable[[Steps, Tensor, Tensor], Tensor | tuple[Tensor, ...]]


class Operation(torch.nn.Module):
    """An operation of strings of 2, 0 and 1 tokens and of a weight ``[D, D]``."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(D, D))
        self.call = call

    def forward(self, x: Tensor) -> Tensor:
        out = self.call(Steps([0, 2, 2, 3]), x, self.weight)
        return out if isinstance(out, Tensor) else torch.cat(out)


class Output(torch.nn.Module):
    """A layer's output and its state side by side, of strings of equal length."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.new_zeros(0), *(part.flatten() for part in _parts(self.model(x)))])


def _parts(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [part for one in value for part in _parts(one)]


OPERATIONS: dict[str, Call] = {
    "enter": lambda steps, x, w: steps.leave(steps.enter(x) @ w),
    "decayed": lambda steps, x, w: decayed_scan(x @ w, torch.sigmoid(x), steps),
    "ngram": lambda steps, x, w: ngram_scan([x, x @ w], w.diagonal(), steps, w.expand(2, D, D)),
    "feedback": lambda steps, x, w: feedback_scan([x, x @ w], x, w, steps, act=torch.nn.Tanh(), mix=w[:2]),
    "gated": lambda steps, x, w: gated_scan(VARIANTS["lstm"], x, w.repeat(4, 1), None, w.repeat(4, 1), steps),
    "windows": lambda steps, x, w: (windows(x @ w, steps, 2).view(-1, D), last_tokens(x, steps, 2)[0]),
    "filtered": lambda steps, x, w: filtered(x, w, steps),
}
# One operation under what is slowest; the others are among the slow tests.
SLOW_OPERATIONS = {(way, name) for way in COMPILERS for name in OPERATIONS if name != "decayed"}
# Every step of a search is many operations: tracing all is slow.
FEW = {
    "rrnn": lambda width: RRNN(
        width, 4, 1, 1, ("add",), ("tanh", "sigmoid"), auxiliary=(), hidden_channels=2, norm=None
    ),
    "rrnn-distinct": lambda width: RRNN(
        width, 4, 2, 1, ("add",), ("tanh",), auxiliary=(), hidden_channels=2, norm=None, distinct=True
    ),
    "rrnn-gru": lambda width: RRNNGRU(width, 4, 1, hidden_channels=2),
}
LAYERS = MODELS | SIZED | FEW | {"rkm-plain-lstm": lambda width: RKM(width, 4, "lstm", layer_norm=False)}


@pytest.mark.halved
@pytest.mark.parametrize(
    ("name", "way"),
    [
        pytest.param(
            name, way, marks=[pytest.mark.slow] if (way, name) in SLOW_OPERATIONS else [], id=f"{name}-{way}"
        )
        for way in WAYS
        for name in OPERATIONS
    ],
)
def test_operations(name: str, way: str) -> None:
    operation = Operation(OPERATIONS[name])
    randomize(operation)
    WAYS[way](operation, [normal(3, D)], [normal(3, D)])


# Dynamo is slow: test_compiles_whole_on_padded_strings has all layers. (PyTorch compiles no jvp of
# layer_norm.)
COMPILED = ("string_kernel-feedback", "kernel_machine-feedback", "rkm-plain-lstm", "rrnn", "weight_drop")
# One of each kind; the others, and trees, are among the slow tests where tracing is.
KINDS = ("string_kernel", "kernel_machine", "rkm-plain-lstm", "network")
QUICK = ("vmap", "FakeTensorMode", "batched gradients")


def is_slow(name: str, way: str) -> bool:
    return name != COMPILED[0] if way == "compiled transforms" else way not in QUICK and name not in KINDS


CASES = [
    pytest.param(name, way, marks=[pytest.mark.slow] if is_slow(name, way) else [])
    for way in WAYS
    for name in (COMPILED if way in COMPILERS else LAYERS)
]


@pytest.mark.halved
@pytest.mark.parametrize(("name", "way"), CASES)
def test_layers(name: str, way: str) -> None:
    model = Output(LAYERS[name](D))
    randomize(model)
    WAYS[way](model.eval(), [normal(1, 2, D)], [normal(1, 2, D)])


def test_lengths_are_constants_of_a_program() -> None:
    model, x, ptr = RKM(D, 4), torch.randn(5, D), torch.tensor([0, 3, 5])
    for record in (torch.jit.trace, lambda model, given: torch.export.export(model, given, strict=False)):
        with pytest.raises(ValueError, match="lengths of strings as constants: give ptr as a list"):
            record(model, (x, ptr))
    program = torch.export.export(model, (x, [0, 3, 5]), strict=False).module()
    torch.testing.assert_close(program(x, [0, 3, 5])[0], model(x, ptr)[0])


# A network is of string kernels, and the one with synchronized filters of a gated memory.
@pytest.mark.parametrize(
    "name",
    [
        *("kernel_machine", "network", "rkm-sync", "rrnn"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("string_kernel", "rkm-plain-lstm", "rrnn-gru")
        ),
    ],
)
def test_exported_programs_take_any_number_of_padded_strings(name: str) -> None:
    model = LAYERS[name](D)
    dynamic = ({0: torch.export.Dim("strings", min=2)},)
    program = torch.export.export(model.eval(), (torch.randn(3, 2, D),), dynamic_shapes=dynamic, strict=False)
    x = torch.randn(5, 2, D)
    torch.testing.assert_close(program.module()(x)[0], model(x)[0])


def test_scripting_is_refused() -> None:
    with pytest.raises(TypeError, match=r"torch\.jit\.script cannot read RKM: use torch\.export"):
        torch.jit.script(RKM(D, 4))
