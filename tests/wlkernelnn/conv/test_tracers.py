"""Every layer under everything in PyTorch that records or transforms operations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.nn import GraphConv

from tests.checks.equations import randomize
from tests.checks.kernel_convs import ALL_LAYERS, OPTIONS, D, arguments_of, make
from tests.checks.tracers import COMPILERS, QUIET, TRACERS
from tests.inputs.graphs import EDGES
from wlkernelnn.conv.kernel_conv import KernelConv

pytestmark = QUIET

EDGE_INDEX = EDGES["random"].edge_index
CHOSEN = ("constant", "gated-types", "learned-attr")
SLOW = ("linearize", "make_fx")


class Layer(torch.nn.Module):
    """A layer with its arguments in a row."""

    def __init__(self, layer: str, options: str) -> None:
        super().__init__()
        self.conv = make(layer, OPTIONS[options])
        randomize(self.conv)
        self.names = [*arguments_of(OPTIONS[options], 1)]

    def forward(self, x: Tensor, edge_index: Tensor, *given: Tensor) -> Tensor:
        return self.conv(x, edge_index, **dict(zip(self.names, given, strict=True)))


def inputs_of(options: str, edge_index: Tensor = EDGE_INDEX) -> tuple[Tensor, ...]:
    arguments = arguments_of(OPTIONS[options], edge_index.size(1), dtype=torch.float64)
    return torch.randn(12, D, dtype=torch.float64), edge_index, *arguments.values()


# Two tracers are slow: one set of options, the others are among the slow tests.
CASES = [
    pytest.param(tracer, options, marks=[pytest.mark.slow] if options != CHOSEN[1] and tracer in SLOW else [])
    for tracer in TRACERS
    for options in CHOSEN
]


@pytest.mark.halved
@ALL_LAYERS
@pytest.mark.parametrize(("tracer", "options"), CASES)
def test_tracers(layer: str, options: str, tracer: str) -> None:
    TRACERS[tracer](Layer(layer, options), inputs_of(options), inputs_of(options, EDGE_INDEX.flip(0)))


@pytest.mark.parametrize(
    ("layer", "options", "compiler"),
    [
        ("random_walk", "constant", "strict export"),
        ("deep", "learned-attr", "strict export"),
        ("wl", "gated-types", "strict export"),
        pytest.param("wl", "constant", "compiled transforms", marks=pytest.mark.slow),
    ],
)
def test_compilers(layer: str, options: str, compiler: str) -> None:
    COMPILERS[compiler](Layer(layer, options), inputs_of(options), inputs_of(options, EDGE_INDEX.flip(0)))


@pytest.mark.slow  # a network in ONNX is tested by tests/wlkernelnn/models/test_export.py
def test_onnx(tmp_path: Path) -> None:
    """For graphs of all sizes; deep layers are in the test of an exported network."""
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    conv = make("wl", OPTIONS["gated"]).eval()
    nodes, edges = torch.export.Dim("N"), torch.export.Dim("E")
    torch.onnx.export(
        conv,
        (torch.randn(12, D), EDGE_INDEX),
        str(tmp_path / "layer.onnx"),
        input_names=["x", "edge_index"],
        dynamo=True,
        verbose=False,
        dynamic_shapes=({0: nodes}, {1: edges}),
    )
    session = onnxruntime.InferenceSession(str(tmp_path / "layer.onnx"))
    x, edge_index = torch.randn(7, D), torch.randint(7, (2, 20))
    (out,) = session.run(None, {"x": x.numpy(), "edge_index": edge_index.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), conv(x, edge_index).detach(), rtol=1e-4, atol=1e-5)


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("random_walk", "deep")]


def _compiled(conv: KernelConv, *args: Tensor) -> Any:
    torch.compiler.reset()
    return torch.compile(conv, backend="aot_eager")


@pytest.mark.halved
@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
@pytest.mark.parametrize(
    "layer",
    ["wl", *(pytest.param(name, marks=pytest.mark.slow) for name in ("GraphConv", "random_walk", "deep"))],
)
@pytest.mark.parametrize(
    "run",
    [
        lambda conv, *args: torch.export.export(conv, args).module(),
        lambda conv, *args: torch.jit.trace(conv, args),
        _compiled,
    ],
    ids=["export", "jit.trace", "compile"],
)
def test_nodes_that_are_not_there_are_refused(layer: str, side: int, run: Any) -> None:
    conv = GraphConv(D, 8) if layer == "GraphConv" else make(layer, OPTIONS["constant"])
    x, wrong = torch.randn(12, D), EDGE_INDEX.clone()
    wrong[side, 3] = 12
    with torch.no_grad(), pytest.raises((IndexError, RuntimeError)):
        run(conv, x, EDGE_INDEX)(x, wrong)


@ALL_LAYERS
def test_scripting_is_refused(layer: str) -> None:
    with pytest.raises(NotImplementedError, match=r"cannot be scripted; use torch\.jit\.trace"):
        torch.jit.script(make(layer))


@ALL_LAYERS
@pytest.mark.parametrize("options", ["constant", "gated-types", "learned-attr"])
def test_an_optimizer_of_a_lazy_layer_trains_everything(layer: str, options: str) -> None:
    conv = make(layer, OPTIONS[options], in_channels=-1)
    optimizer = torch.optim.SGD(conv.parameters(), 0.1)
    arguments = arguments_of(OPTIONS[options], EDGE_INDEX.size(1))
    conv(torch.randn(12, D), EDGE_INDEX, **arguments).square().sum().backward()
    before = {name: value.detach().clone() for name, value in conv.named_parameters()}
    optimizer.step()
    assert not [name for name, value in conv.named_parameters() if torch.equal(value, before[name])]
