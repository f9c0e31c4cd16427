from __future__ import annotations

from dataclasses import replace

import pytest
import torch

pytest.importorskip("numba")

from tests.inputs.molecules import regression_set
from wlkernelnn.bench.harness.parameters import count_parameters
from wlkernelnn.bench.speed.contestants import (
    OURS,
    Contestant,
    contestant,
    contestants,
    names,
    stock_operations,
    train,
)
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.ops.graph import fused


@pytest.fixture
def data() -> PackedGraphs:
    return regression_set()


def outputs(who: Contestant) -> torch.Tensor:
    with who.operations(), torch.no_grad():
        return torch.cat([who.outputs_and_targets(batch)[0] for batch in who.loader(50, 20, False)])


@pytest.mark.parametrize("readout", ["sum", "last"])
def test_ours_and_plain_pyg_compute_the_same(data: PackedGraphs, readout: str) -> None:
    expected = outputs(contestant("plain PyG", data, readout, channels=16))
    assert expected.shape == (50, 1)
    for name in OURS:
        torch.testing.assert_close(
            outputs(contestant(name, data, readout, channels=16)), expected, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", names())
def test_all_learn_the_same_targets(data: PackedGraphs, name: str) -> None:
    """And predict as in evaluation: no statistics of a batch, and none that are kept."""
    who = contestant(name, data, "last", channels=8)
    targets = [who.outputs_and_targets(batch)[1] for batch in who.loader(50, 20, False)]
    torch.testing.assert_close(torch.cat(targets), data[:50].y)
    batches = list(who.loader(60, 60, False))

    def loss() -> float:
        with torch.no_grad():
            return float(torch.nn.functional.mse_loss(*who.outputs_and_targets(batches[0])))

    before = loss()
    train(who.training_step(), 10 * batches)
    assert loss() < before

    weights = {key: value.clone() for key, value in who.net.state_dict().items()}
    of_few, of_many = (torch.cat([torch.as_tensor(part) for part in who.predict(50, n)]) for n in (7, 50))
    torch.testing.assert_close(of_few, of_many, rtol=1e-4, atol=1e-4)
    assert who.net.training
    for key, value in who.net.state_dict().items():
        assert torch.equal(value, weights[key])


def test_predictions_are_those_of_the_network(data: PackedGraphs) -> None:
    who = contestant("colours, fused", data, channels=8)
    predicted = torch.as_tensor(who.predict(50, 20))
    torch.testing.assert_close(predicted, outputs(who))


def test_operations() -> None:
    with stock_operations():
        assert fused.LOOPS["cpu"]() is None
    assert fused.LOOPS["cpu"]() is fused.numba_loops()


def test_one_gine_is_twice_our_size_and_one_as_large(data: PackedGraphs) -> None:
    ours, wide, as_large = (
        count_parameters(contestant(name, data).net) for name in ("by nodes", "GINE×4", "GINE×4, our size")
    )
    assert wide / ours == pytest.approx(2, abs=0.1)
    assert as_large / ours == pytest.approx(1, abs=0.02)


def test_batch_sizes(data: PackedGraphs) -> None:
    sizes = {who.name: who.sizes((20, 128, 8192)) for who in contestants(data[:5], "sum")}
    assert sizes["plain PyG"] == sizes["GINE×4"] == sizes["by nodes"] == [20, 128]
    assert sizes["colours"] == sizes["colours, fused"] == [20, 128, 8192]
    assert sizes.get("chemprop", [20, 64, 128]) == [20, 64, 128]
    gine = replace(contestant("GINE×4", data[:5]), device="cuda")
    assert gine.sizes((20, 128, 8192)) == [20, 128, 8192]
