from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data

from tests.checks.pairwise import pairwise
from tests.inputs.molecules import regression_set
from tests.wlkernelnn.models.base.test_quotient import SHAPES, network, odd_graphs
from wlkernelnn.datasets import PackedLoader
from wlkernelnn.models import ColourCache, GraphKernelNetwork, KernelStackNetwork
from wlkernelnn.ops.colours import Quotient


def batches(net: GraphKernelNetwork, data: Any, batch_size: int = 7) -> list[Data]:
    return list(PackedLoader(data, batch_size, quotient=net.quotient_depth))


@torch.no_grad()
def predicted(net: GraphKernelNetwork, given: list[Data], cache: ColourCache | None = None) -> Tensor:
    return torch.cat([net.predict(batch, cache) for batch in given])


def watched(net: GraphKernelNetwork, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many states of last colours the network computes, call by call."""
    rows: list[int] = []
    states = net.states

    def count(codes: Tensor, quotient: Quotient) -> Tensor:
        result = states(codes, quotient)
        rows.append(len(result))
        return result

    monkeypatch.setattr(net, "states", count)
    return rows


@pytest.mark.halved
@pairwise(shape=SHAPES, make=[odd_graphs, regression_set], capacity=[3, 100, 10_000])
def test_the_same_predictions(shape: dict[str, Any], make: Any, capacity: int) -> None:
    data = make()
    net = network(data, **shape).double().eval()
    given, cache = batches(net, data), ColourCache(capacity)
    expected = predicted(net, given)
    scale = float(expected.abs().max())
    for _ in range(2):
        came = predicted(net, given, cache)
        torch.testing.assert_close(came / scale, expected / scale, rtol=0, atol=1e-12)
        assert len(cache) <= capacity


def test_each_colour_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache, rows = batches(net, data), ColourCache(), watched(net, monkeypatch)
    predicted(net, given, cache)
    (whole,) = batches(net, data, len(data))
    assert sum(rows) == len(cache) == whole.quotient.levels[-1].own.numel()
    assert len(rows) > 1
    rows.clear()
    predicted(net, given[::-1], cache)
    assert rows == []


def test_new_buffers_are_another_network() -> None:
    class Shifted(GraphKernelNetwork):
        def states(self, codes: Tensor, graph: Any) -> Tensor:
            return self.shift(super().states(codes, graph))

    data = regression_set()
    net = Shifted.from_data(data, hidden_channels=8)
    net.shift = torch.nn.BatchNorm1d(8)
    given, cache = batches(net.eval(), data), ColourCache()
    before = predicted(net, given, cache)
    net.shift.running_mean.normal_()
    after = predicted(net, given, cache)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, predicted(net, given))


def test_a_parameter_of_the_network_itself() -> None:
    class Scaled(GraphKernelNetwork):
        def states(self, codes: Tensor, graph: Any) -> Tensor:
            return super().states(codes, graph) * self.scale

    data = regression_set()
    net = Scaled.from_data(data, hidden_channels=8)
    net.scale = torch.nn.Parameter(torch.ones(8))
    given, cache = batches(net.eval(), data), ColourCache()
    before = predicted(net, given, cache)
    with torch.no_grad():
        net.scale.normal_()
    after = predicted(net, given, cache)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, predicted(net, given))


@pytest.mark.parametrize(
    ("first", "then"), [(torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode)]
)
def test_modes_without_gradients(first: Any, then: Any) -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache = batches(net, data), ColourCache()
    half = len(given) // 2
    with first():
        came = [net(batch, cache) for batch in given[:half]]
    with then():
        came += [net(batch, cache) for batch in given[half:]]
    with torch.no_grad():
        torch.testing.assert_close(torch.cat(came), torch.cat([net(batch) for batch in given]))


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8], ids=str)
def test_codes_of_fewer_bits(dtype: torch.dtype) -> None:
    data = regression_set()
    net = network(data).eval()
    expected = predicted(net, batches(net, data))
    cache = ColourCache()
    for number, batch in enumerate(batches(net, data)):
        if number % 2:
            batch.x = batch.x.to(dtype)
        torch.testing.assert_close(predicted(net, [batch], cache), expected[7 * number : 7 * number + 7])


def test_states_of_other_precision_are_not_taken() -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache = batches(net, data), ColourCache()
    expected = predicted(net, given)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(predicted(net, given, cache), predicted(net, given))
    torch.testing.assert_close(predicted(net, given, cache), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert not torch.equal(predicted(net, given, cache), expected)


@pytest.mark.parametrize("through_data", [False, True])
def test_new_weights_are_another_network(through_data: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache = batches(net, data), ColourCache()
    before = predicted(net, given, cache)
    weight = net.conv.walks[0].lins[0].weight
    (weight.data if through_data else weight.detach()).normal_()
    after = predicted(net, given, cache)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, predicted(net, given))
    double = predicted(net.double(), given, cache)
    torch.testing.assert_close(double, after.double(), rtol=1e-4, atol=1e-5)
    assert double.dtype == torch.float64
    predicted(net.float(), given, cache)
    # The head sees graphs, not colours: nothing is to be computed anew.
    rows = watched(net, monkeypatch)
    with torch.no_grad():
        net.head.lins[-1].bias.add_(1.0)
    assert not torch.allclose(predicted(net, given, cache), after)
    assert rows == []


def test_a_failure_leaves_no_numbers_without_states(monkeypatch: pytest.MonkeyPatch) -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache = batches(net, data), ColourCache()
    predicted(net, given[:1], cache)

    def fail(*_: Any) -> Tensor:
        raise MemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(net, "states", fail)
        with pytest.raises(MemoryError):
            predicted(net, given[1:], cache)
    torch.testing.assert_close(predicted(net, given, cache), predicted(net, given))


def test_no_gradients_come_from_a_cache() -> None:
    data = regression_set()
    net = network(data)
    with pytest.raises(ValueError, match=r"no gradients: call under torch\.no_grad"):
        net(batches(net, data)[0], ColourCache())


def test_nothing_is_kept_in_training() -> None:
    """What dropout left of a state is of one step."""
    data = regression_set()
    net = KernelStackNetwork.from_data(data, hidden_channels=8, num_layers=2, layer_dropout=0.5)
    (batch,) = PackedLoader(data, len(data), quotient=net.quotient_depth)
    cache = ColourCache()
    with torch.no_grad():
        net.train()(batch, cache)
        assert len(cache) == 0
        torch.testing.assert_close(net.eval()(batch, cache), net(batch))


def test_a_new_encoder_is_another_network() -> None:
    data = regression_set()
    net = network(data).eval()
    given, cache = batches(net, data), ColourCache()
    before = predicted(net, given, cache)
    with torch.no_grad():
        net.encoder.table.weight.normal_()
    after = predicted(net, given, cache)
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, predicted(net, given))


def test_batches_of_another_depth() -> None:
    net, data, cache = small(), regression_set(20), ColourCache()
    expected = predicted(net, batches(net, data))
    for more in (0, 1, 0):
        given = list(PackedLoader(data, 7, quotient=net.quotient_depth + more))
        torch.testing.assert_close(predicted(net, given, cache), expected)


def small() -> GraphKernelNetwork:
    return GraphKernelNetwork.from_data(regression_set(20), hidden_channels=8).eval()
