from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from wlkernelnn.bench import training_speed
from wlkernelnn.bench.training_speed import Measured, best, contestants, plain, tables, training_step
from wlkernelnn.datasets import PackedGraphs, PackedLoader, load_molecules
from wlkernelnn.ops.edge_sum import fused

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def data() -> PackedGraphs:
    return load_molecules("chembl2321810")[:60]


def test_ours_and_plain_pyg_compute_the_same(data: PackedGraphs) -> None:
    nets = contestants(data, "sum")
    assert list(nets) == ["plain PyG", "GINE×4", "by nodes", "colours", "colours, fused"]
    (batch,) = PackedLoader(data, 60, quotient=nets["colours"].quotient_depth)
    weights = nets["by nodes"].state_dict()
    expected = nets["plain PyG"](plain(batch))
    for name in ("by nodes", "colours", "colours, fused"):
        nets[name].load_state_dict(weights)
        torch.testing.assert_close(nets[name](batch), expected, rtol=1e-4, atol=1e-4)


def test_a_step_trains(data: PackedGraphs) -> None:
    net = contestants(data, "last")["colours"]
    (batch,) = PackedLoader(data, 60)
    losses = []
    step = training_step(net)
    for _ in range(10):
        with torch.no_grad():
            losses.append(float(torch.nn.functional.mse_loss(net(batch), batch.y)))
        step(batch)
    assert losses[-1] < losses[0]


def test_stock_operations_are_stock() -> None:
    with training_speed.stock_operations():
        assert fused.kernels() is None
    assert fused.kernels() is not None


def measured(size: int, contestant: str, rate: float) -> Measured:
    return Measured("step", "cep", "sum", "highest", 2, size, contestant, rate, rate, rate)


def test_best_against_best() -> None:
    some = [
        *(measured(size, "plain PyG", rate) for size, rate in ((20, 300.0), (128, 500.0))),
        *(measured(size, "GINE×4", rate) for size, rate in ((20, 2000.0), (128, 1000.0))),
        *(measured(size, "colours, fused", rate) for size, rate in ((20, 4000.0), (128, 7000.0))),
    ]
    assert best(some, "GINE×4") == 2000
    ((title, rows),) = tables(some)
    assert title == 'step, cep, readout "sum", precision "highest", 2 thread(s)'
    assert rows[0] == ("", "20", "128", "best / plain PyG", "best / GINE×4")
    assert rows[-1] == ("colours, fused", "4,000", "7,000", "14 (goal 14)", "3.5 (goal 2.5)")


def test_main_writes_tables_and_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "--quick --datasets=[chembl2321810] --threads=[1] --output-dir"
    training_speed.main([*command.split(), str(tmp_path)])
    result = json.loads((tmp_path / "training_speed.json").read_text(encoding="utf-8"))
    assert result["mode"] == "quick"
    names = ("plain PyG", "GINE×4", "by nodes", "colours", "colours, fused")
    came = {(m["size"], m["contestant"]) for m in result["measured"]}
    assert came == {(size, name) for size in (16, 64) for name in names}
    assert all(0 < m["low"] <= m["rate"] <= m["high"] for m in result["measured"])
    text = (tmp_path / "training_speed.md").read_text(encoding="utf-8")
    assert "quick" in text
    assert text.count("| colours, fused |") == 1
    assert (tmp_path / "training_speed.png").read_bytes()[:4] == b"\x89PNG"
    assert "colours, fused" in capsys.readouterr().out
