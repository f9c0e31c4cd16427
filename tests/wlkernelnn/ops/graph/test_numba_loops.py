"""Who takes numba's loops, on how many threads, and what happens where they cannot be had."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.inputs.graphs import EDGES, random_edges
from wlkernelnn.ops.graph import gated_sum, relabel_sum, sort_edges

pytest.importorskip("numba")

from wlkernelnn.ops import compiled
from wlkernelnn.ops.graph import numba_kernels as kernels
from wlkernelnn.ops.graph import numba_loops

CHANNELS = 16


def inputs(dtype: torch.dtype = torch.float32) -> list[Tensor]:
    shapes = [(50, CHANNELS), (60, CHANNELS), (3, CHANNELS), (50, CHANNELS), (3, CHANNELS)]
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def results(values: list[Tensor], weight: Tensor | None = None) -> list[Tensor]:
    """Both sums and all their gradients, on two thousand edges."""
    a, b, G, c, F = values
    edges = sort_edges(*EDGES["many_edges"])
    edge_type = torch.arange(2000) % 3
    out = gated_sum(c, edges, (a, b), G, F, edge_type, weight)
    labels = relabel_sum(c, edges, torch.nn.ReLU(), G, edge_type, weight)
    total = out.square().sum() + labels.square().sum()
    return [out.detach(), labels.detach(), *torch.autograd.grad(total, values)]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Names of the kernels that were run since, each with its number of threads."""
    taken: list[tuple[str, int]] = []
    run = numba_loops.Loop.run

    def recorded(self: numba_loops.Loop, kernel: str, chunks: int, *values: Any, **order: bool) -> None:
        taken.append((kernel, chunks))
        run(self, kernel, chunks, *values, **order)

    monkeypatch.setattr(numba_loops.Loop, "run", recorded)
    return taken


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_loops_are_taken(dtype: torch.dtype, taken: list[tuple[str, int]]) -> None:
    results(inputs(dtype))
    names = {"gated", "gated_by_target", "gated_by_source", "mapped", "mapped_by_source"}
    assert set(taken) == {(name, 1) for name in names}


def test_gradients_that_nobody_wants_are_not_computed(taken: list[tuple[str, int]]) -> None:
    values = inputs()
    edges, edge_type = sort_edges(*EDGES["many_edges"]), torch.arange(2000) % 3
    a, b, G, c, F = values
    for leaf, kernel in ((b, "gated_by_target"), (a, "gated_by_source"), (F, "gated_by_source")):
        out = gated_sum(c, edges, (a, b), G, F, edge_type)
        taken.clear()
        torch.autograd.grad(out.sum(), leaf, allow_unused=True)
        assert [name for name, _ in taken] == ["gated_by_target", "gated_by_source"]
        for value in values:
            value.requires_grad_(value is leaf)
        out = gated_sum(c, edges, (a, b), G, F, edge_type)
        taken.clear()
        torch.autograd.grad(out.sum(), leaf)
        assert [name for name, _ in taken] == [kernel]
        for value in values:
            value.requires_grad_()


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> object:
    if compiled.config.NUMBA_NUM_THREADS < 2:
        pytest.skip("numba has one thread here")
    monkeypatch.setattr(numba_loops, "GRAIN", 1)
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_threads_give_the_same_results(two_threads: object, taken: list[tuple[str, int]]) -> None:
    """Bit by bit on as many threads, and up to rounding on one."""
    values = inputs(torch.float64)
    first, again = results(values), results(values)
    assert {chunks for _, chunks in taken} == {2}
    torch.set_num_threads(1)
    for came, repeated, alone in zip(first, again, results(values), strict=True):
        assert torch.equal(came, repeated)
        torch.testing.assert_close(came, alone, rtol=1e-12, atol=1e-12 * float(alone.abs().max()))


def test_never_more_threads_than_torch_and_than_there_is_work(
    taken: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled.config, "NUMBA_NUM_THREADS", 64)
    loop = numba_loops.MappedLoop(sort_edges(*EDGES["many_edges"]), torch.arange(2000) % 3, None, "RELU")
    assert loop.chunks(CHANNELS) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    assert loop.chunks(CHANNELS) == 1
    assert loop.chunks(3 * numba_loops.GRAIN // 2000 + 1) == 3
    assert loop.chunks(100 * numba_loops.GRAIN) == 8
    monkeypatch.setattr(compiled.config, "NUMBA_NUM_THREADS", 4)
    assert loop.chunks(100 * numba_loops.GRAIN) == 4


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("edges", EDGES.values(), ids=EDGES)
def test_chunks_cover_every_row_once(edges: object, chunks: int) -> None:
    indptr = sort_edges(*edges).indptr.numpy()
    spans = [kernels.rows_of(chunk, chunks, indptr) for chunk in range(chunks)]
    covered = [row for first, last in spans for row in range(first, last)]
    assert covered == list(range(len(indptr) - 1))


def test_chunks_are_balanced_by_edges() -> None:
    many = random_edges(10, 100, 5000).edge_index
    hub = torch.stack([torch.arange(5000) % 10, torch.zeros(5000, dtype=torch.int64)])
    indptr = sort_edges(torch.cat([hub, many], dim=1), 10, 100).indptr.numpy()
    first, last = kernels.rows_of(0, 2, indptr)
    assert (first, last) == (0, 1) or indptr[last] < 5300


def test_many_callers_at_once(two_threads: object) -> None:
    values = inputs(torch.float64)
    expected, came = results(values), []

    def call() -> None:
        torch.set_num_threads(2)
        came.extend(results([value.detach().clone().requires_grad_() for value in values]) for _ in range(5))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(came) == 20
    for result in came:
        for value, right in zip(result, expected, strict=True):
            torch.testing.assert_close(value, right, rtol=1e-12, atol=1e-12 * float(right.abs().max()))


PROGRAM = """
import sys
{before}
import torch
from wlkernelnn.ops.graph import fused, gated_sum, sort_edges
assert "wlkernelnn.ops.graph.numba_loops" not in sys.modules, "kernels are imported before they are needed"
def run():
    edges = sort_edges(torch.arange(200).view(2, 100) % 10, 10, 10)
    c = torch.ones(10, 4)
    return gated_sum(c, edges, (c, c)).sum().item()
{body}
"""


def run_program(body: str, before: str = "", **environment: str) -> str:
    program = PROGRAM.format(before=before, body=body)
    known = {**os.environ, "OMP_NUM_THREADS": "2", **environment}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=known, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_without_numba() -> None:
    before = "sys.modules['numba'] = None"
    assert float(run_program("assert fused.numba_loops() is None; print(run())", before)) == pytest.approx(
        100 * 4 / (1 + 2.718281828459045**-2), rel=1e-6
    )


@pytest.mark.slow
def test_where_nothing_can_be_cached(tmp_path: Path) -> None:
    """Neither beside the package nor in the user's cache: numba then refuses to make a cache at all."""
    before = (
        "import numba.core.caching as caching\n"
        "for locator in caching.CacheImpl._locator_classes:\n"
        "    locator.from_function = classmethod(lambda *_: None)\n"
    )
    body = "print(run()); print(type(fused.numba_loops().kernels.gated_chunk._cache).__name__)"
    assert "NullCache" in run_program(body, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.slow
def test_child_of_a_fork_that_has_one_thread() -> None:
    """Torch itself hangs there on more."""
    body = (
        "import os; fused.numba_loops().GRAIN = 1; torch.set_num_threads(2); first = run()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    torch.set_num_threads(1)\n"
        "    os._exit(0 if run() == first else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    run_program(body)
