"""What runs on a GPU computes what a CPU does (`.ci/run gpu`); kernels are tested in tests/wlkernelnn/ops."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor

from tests.inputs.graphs import random_edges
from tests.inputs.molecules import quick, regression_set, small_network
from tests.inputs.strings import ptr_of
from wlkernelnn import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
from wlkernelnn.colours import to_colours
from wlkernelnn.datasets import PackedLoader, load_text
from wlkernelnn.ops.string import Steps, feedback_scan, ngram
from wlkernelnn.sequence import (
    RKM,
    RRNN,
    LanguageModel,
    RecurrentKernelMachine,
    StringKernelConv,
    StringKernelNetwork,
)
from wlkernelnn.training import (
    LanguageOptions,
    fit,
    fit_language_model,
    load_checkpoint,
    perplexity,
    predict,
    save_checkpoint,
)

DEVICE = "cuda"
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def values_and_gradients(net: torch.nn.Module, call: Callable[[Any], Tensor]) -> list[Tensor]:
    out = call(net)
    generator = torch.Generator().manual_seed(1)
    cotangent = torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out)
    net.zero_grad()
    out.backward(cotangent)
    return [
        value.detach().cpu() for value in (out, *(p.grad for p in net.parameters() if p.grad is not None))
    ]


def assert_same(
    net: torch.nn.Module,
    call: Callable[[Any, Callable[[Any], Any]], Tensor],
    tolerance: float = 1e-9,
    faster: Callable[[Any], Any] = lambda net: net,
) -> None:
    """``call(net, to)`` of the network here, and of its (faster) copy there; ``to`` moves inputs."""
    there = faster(copy.deepcopy(net).to(DEVICE))
    expected = values_and_gradients(net, lambda net: call(net, lambda value: value))
    came = values_and_gradients(there, lambda net: call(net, lambda value: value.to(DEVICE)))
    assert len(came) == len(expected) > 1
    scale = max(float(value.abs().max()) for value in expected)
    for one, other in zip(came, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * scale)


CONVS: dict[str, Callable[[], torch.nn.Module]] = {
    "wl": lambda: WLKernelConv(5, 40, num_iterations=3, decay="gated", num_edge_types=3),
    "wl, fixed": lambda: WLKernelConv(5, 40, num_iterations=2, decay=0.5, num_edge_types=3),
    "random walk": lambda: RandomWalkKernelConv(5, 40, decay="gated", num_edge_types=3, act="tanh"),
    "deep": lambda: DeepKernelConv(5, 40, decay="learned", num_edge_types=3),
}


def graph_call(net: Any, to: Callable[[Any], Any]) -> Tensor:
    edges = random_edges(50, 50, 130)
    torch.manual_seed(2)
    x, edge_type = torch.randn(50, 5, dtype=torch.float64), torch.randint(3, (130,))
    return net(to(x), to(edges.edge_index), edge_type=to(edge_type))


@pytest.mark.parametrize("name", CONVS)
def test_layers_of_graphs(name: str) -> None:
    assert_same(CONVS[name]().double(), graph_call)


def test_a_compiled_layer() -> None:
    assert_same(CONVS["wl"]().double(), graph_call, faster=torch.compile)


@pytest.mark.parametrize("quotient", [True, False], ids=["colours", "nodes"])
def test_networks_of_molecules(quotient: bool) -> None:
    data = regression_set()
    net = small_network(data, quotient=quotient).double()
    assert_same(net, lambda net, to: net(to(next(iter(PackedLoader(data, 40, quotient=net.quotient_depth))))))
    assert (net.quotient_depth is not None) == quotient


@pytest.mark.filterwarnings("ignore:Sparse")
def test_any_network_by_colours() -> None:
    """A network by nodes here, the same by colours there."""
    data = regression_set()
    batch = next(iter(PackedLoader(data, 40)))

    class Layers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = torch.nn.Embedding(256, 8)
            self.conv = pyg.GraphConv(8, 8)

        def forward(self, batch: Any) -> Tensor:
            x = self.conv(self.embedding(batch.x[:, 0].long()), batch.edge_index).relu()
            return pyg.global_add_pool(x, batch.batch, size=batch.num_graphs)

    assert_same(Layers(), lambda net, to: net(to(batch)), 1e-4, to_colours)


STRINGS: dict[str, Callable[[], torch.nn.Module]] = {
    "gated": lambda: StringKernelConv(6, 40, ngram=2),
    "constant": lambda: StringKernelConv(6, 40, ngram=3, decay=0.8),
    "feedback": lambda: StringKernelConv(40, 40, ngram=1, feedback=True, highway=True),
    "feedback, 2": lambda: StringKernelConv(6, 40, ngram=2, feedback=True, act="tanh", readout="learned"),
    "both ways": lambda: StringKernelNetwork(6, 20, num_layers=2, bidirectional=True),
    "rkm": lambda: RKM(6, 20, variant="rkm_lstm"),
    "lstm": lambda: RKM(6, 20, variant="lstm", ngram=2, layer_norm=False),
    "machine": lambda: RecurrentKernelMachine(6, 20),
    "rrnn": lambda: RRNN(6, 6),
}


@pytest.mark.parametrize("name", STRINGS)
def test_layers_of_strings(name: str) -> None:
    net: Any = STRINGS[name]().double()
    x = torch.randn(19, net.in_channels, dtype=torch.float64)
    ptr = ptr_of([7, 0, 3, 9])
    assert_same(net, lambda net, to: net(to(x), to(ptr))[0])


@pytest.mark.parametrize("precision", ["64-true", "32-true", "bf16-mixed"])
def test_a_trained_network(precision: str, tmp_path: Path) -> None:
    """It learns there what it learns here; and its file can be read here."""
    data = regression_set()
    predicted = []
    for accelerator in ("cpu", "gpu" if DEVICE == "cuda" else "cpu"):
        net = small_network(data)
        options = quick(epochs=3, precision=precision if accelerator != "cpu" else "64-true")
        options.accelerator = accelerator
        fit(net, data[:45], data[45:], options, progress=False)
        predicted.append(torch.as_tensor(predict(net.to(DEVICE), data)))
    tolerance = {"64-true": 1e-5, "32-true": 1e-3, "bf16-mixed": 5e-2}[precision]
    scale = float(data.y.std())
    torch.testing.assert_close(predicted[1], predicted[0], rtol=0.0, atol=tolerance * scale)
    save_checkpoint(tmp_path, net)
    read, _ = load_checkpoint(tmp_path)
    assert next(read.parameters()).is_cpu
    torch.testing.assert_close(
        torch.as_tensor(predict(read, data)), predicted[1], rtol=1e-3, atol=1e-4 * scale
    )


@pytest.mark.parametrize("graphs", [False, True], ids=["launched", "replayed"])
def test_a_language_model(graphs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wlkernelnn.training.text.language.EVALUATION_LENGTH", 10)
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat\nthe dog sat on the cat\n" * 20)
    corpus = load_text(path, sizes=(0.6, 0.2, 0.2))
    found = []
    for accelerator in ("cpu", "gpu" if DEVICE == "cuda" else "cpu"):
        torch.manual_seed(0)
        encoder = StringKernelNetwork(16, 16, 2, ngram=1, feedback=True, highway=True)
        model = LanguageModel(len(corpus.vocabulary), encoder)
        options = LanguageOptions(
            epochs=3, batch_size=4, bptt=7, accelerator=accelerator, precision="64-true", cuda_graphs=graphs
        )
        fitted = fit_language_model(model, corpus, options, progress=False)
        model.to(DEVICE)
        drawn = model.generate([0, 1], 5, temperature=0)
        assert drawn.device.type == DEVICE
        found.append([fitted.score, perplexity(model, corpus.test), drawn.tolist()])
    assert found[1][:2] == pytest.approx(found[0][:2], rel=1e-4)
    assert found[1][2] == found[0][2]


def test_half_precision() -> None:
    torch.manual_seed(0)
    model = LanguageModel(50, StringKernelNetwork(32, 32, 2, ngram=2, feedback=True)).to(DEVICE)
    tokens = torch.randint(50, (4, 12), device=DEVICE)
    exact = model(tokens)[0]
    with torch.autocast(DEVICE, torch.bfloat16):
        rounded = model(tokens)[0]
    rounded.float().sum().backward()
    assert (rounded.float() - exact).norm() < 2e-2 * exact.norm()


@pytest.mark.parametrize(
    ("lengths", "width", "n"),
    [([35] * 32, 355, 1), ([200], 355, 1), ([17, 35, 9, 0, 28] * 6, 200, 2), ([5] * 3, 950, 1)],
    ids=["language", "one string", "ragged", "wide"],
)
def test_feedback_of_real_sizes(
    lengths: list[int], width: int, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs wait for each other: many runs are bitwise the same, and near stock operations in float64."""
    steps = Steps(ptr_of(lengths).to(DEVICE))
    shapes = [(sum(lengths), width)] * (n + 2) + [(len(lengths), width)] * (n + 1)
    generator = torch.Generator().manual_seed(3)
    *inputs, weight = (torch.randn(shape, generator=generator) for shape in [*shapes, (width, width)])
    inputs.append(weight / width**0.5)

    def run(dtype: torch.dtype) -> list[Tensor]:
        leaves = [value.to(DEVICE, dtype).requires_grad_() for value in inputs]
        *u, logits, x = leaves[: n + 2]
        state, weight = torch.stack(leaves[n + 2 : -1]), leaves[-1]
        carry = torch.sigmoid(x), x
        outs = feedback_scan(u, logits, weight, steps, state, carry=carry)
        grads = torch.autograd.grad(sum(out.square().sum() for out in outs), leaves)
        return [value.detach() for value in (*outs, *grads)]

    scan = ngram.triton_scan()
    assert scan is not None
    assert scan.fits(steps, inputs[0].to(DEVICE))
    first = run(torch.float32)
    for _ in range(20):
        assert all(torch.equal(one, other) for one, other in zip(run(torch.float32), first, strict=True))
    monkeypatch.setitem(ngram.SCANS, DEVICE, lambda: None)
    for one, exact in zip(first, run(torch.float64), strict=True):
        assert (one - exact).norm() <= 1e-5 * exact.norm()
