from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import pandas as pd
import pytest
from distributed import KilledWorker, LocalCluster
from distributed.utils import get_mp_context

from tests.inputs.molecules import ROWS, regression_set
from wlkernelnn.training import predict_tables
from wlkernelnn.training.screening import cluster, filling, workers
from wlkernelnn.training.screening.parts import Counts, Parts

SMILES = [*(smiles for smiles, _ in ROWS.values()), *regression_set()[:40].smiles]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "ROWS", 5)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    pd.DataFrame({"smiles": SMILES, "number": range(len(SMILES))}).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@pytest.fixture(scope="module")
def two_threads() -> Iterator[LocalCluster]:
    """A cluster whose worker has two threads of this process."""
    with LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as local:
        [worker] = local.workers.values()
        assert "profile" in worker.periodic_callbacks
        yield local


@pytest.fixture
def threads(two_threads: LocalCluster) -> str:
    return two_threads.scheduler_address


def run(table: Path, model: Path, output: Path, **options: Any) -> Counts:
    return predict_tables([table], model, output, output.with_suffix(".rejects.csv"), **options)


@pytest.mark.slow
def test_a_worker_is_killed_in_the_middle(
    run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one does its tasks; the driver fails as well, and is resumed: the same as on one machine."""
    add, out = Parts.add, tmp_path / "out"
    killer = threading.Timer(0.5, lambda: os.kill(victim, signal.SIGKILL))

    def add_and_kill(parts: Parts, *rows: Any) -> None:
        add(parts, *rows)
        if len(parts.done) == 2:
            os.kill(victim, signal.SIGSTOP)  # it holds its tasks until it is killed
            killer.start()
        elif len(parts.done) == 9:
            raise OSError("no space left")

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        # Both processes have imported the package when they start.
        get_mp_context().set_forkserver_preload(["distributed", cluster.__name__])
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50) as two:
            victim = two.workers[0].pid
            with monkeypatch.context() as patch:
                patch.setattr(Parts, "add", add_and_kill)
                with pytest.raises(OSError, match="no space left"):
                    run(table, run_folder, out, scheduler=two.scheduler_address)
            before = {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}
            counts = run(table, run_folder, out, scheduler=two.scheduler_address, resume=True)
    assert killer.finished.is_set()
    assert len(before) == 9
    assert before.items() <= {path.name: path.stat().st_mtime_ns for path in out.glob("part-*")}.items()
    assert counts == run(table, run_folder, tmp_path / "alone", num_workers=0)
    pd.testing.assert_frame_equal(pd.read_parquet(out), pd.read_parquet(tmp_path / "alone"), rtol=1e-5)
    rejects = [(tmp_path / f"{name}.rejects.csv").read_bytes() for name in ("out", "alone")]
    assert rejects[0] == rejects[1]


def test_a_failure_names_the_row(
    two_threads: LocalCluster,
    run_folder: Path,
    table: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, failed = workers.featurize, []

    def fail(smiles: list[object], **options: Any) -> Any:
        if SMILES[30] in smiles and (options["rows"][0] == 30 or len(failed) < 2):
            failed.append(len(smiles))
            raise MemoryError("too large")
        return whole(smiles, **options)

    monkeypatch.setattr(workers, "featurize", fail)
    with pytest.raises(RuntimeError, match=r"data row 31: '.*': MemoryError: too large"):
        run(table, run_folder, tmp_path / "out", scheduler=two_threads.scheduler_address)
    assert failed.count(5) == failed.count(1) == 1 + cluster.RETRIES
    # The cluster does not keep the model.
    assert not [name for name in two_threads.scheduler.worker_plugins if name.startswith("wlkernelnn")]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later versions do not stop for ever")
def test_dask_does_not_profile_the_tasks(
    two_threads: LocalCluster, run_folder: Path, table: Path, tmp_path: Path
) -> None:
    """On Python 3.11 its reading of other threads' frames may stop all of them (python/cpython#106883)."""
    [worker] = two_threads.workers.values()
    stopped = threading.Event()
    worker.periodic_callbacks["profile"] = SimpleNamespace(stop=stopped.set)
    run(table, run_folder, tmp_path / "out", scheduler=two_threads.scheduler_address)
    assert stopped.is_set()
    assert "profile" not in worker.periodic_callbacks


def test_workers_of_other_versions(
    threads: str, run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(range(100))
    monkeypatch.setattr(cluster, "version", lambda name: str(next(versions)))
    with pytest.raises(RuntimeError, match=r"worker .* has .*'rdkit': '4'.*, expected .*'rdkit': '1'"):
        run(table, run_folder, tmp_path / "out.csv", scheduler=threads)
    assert not (tmp_path / "out.csv.parts").exists()


def test_workers_die_of_a_task(
    threads: str, run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(model: Any, task: workers.Task, *_: Any) -> workers.Predicted:
        raise KilledWorker("task", SimpleNamespace(address="tcp://node:1"), 3)

    monkeypatch.setattr(cluster, "predict_task", die)
    died = r"several workers died, the last tcp://node:1, while they predicted data rows 1 … 5"
    with pytest.raises(ChildProcessError, match=died):
        run(table, run_folder, tmp_path / "out", scheduler=threads)


def test_the_scheduler_ends(
    run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = Parts.add
    with LocalCluster(1, 1, processes=False, dashboard_address=":0", silence_logs=50) as local:

        def add_and_close(parts: Parts, *rows: Any) -> None:
            add(parts, *rows)
            if len(parts.done) == 2:
                local.close()

        monkeypatch.setattr(Parts, "add", add_and_close)
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"})
        with pytest.raises(ConnectionError, match=r"the scheduler at .* went away: start it, and resume"):
            run(table, run_folder, tmp_path / "out", scheduler=local.scheduler_address)
    assert len(list((tmp_path / "out").glob("part-*"))) >= 2


def test_local_processes_do_not_start(
    run_folder: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(**options: Any) -> None:
        assert options["n_workers"] == 2
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(cluster, "LocalCluster", fail)
    with pytest.raises(ChildProcessError, match=r"Nanny failed .*needs the line if __name__"):
        run(table, run_folder, tmp_path / "out", scheduler="local", num_workers=2)


def test_wrong_schedulers(run_folder: Path, table: Path, tmp_path: Path) -> None:
    for scheduler, options, says in (
        (
            "node:8786",
            {},
            "scheduler: expected an address .* or local, got 'node:8786'",
        ),
        ("tcp://node:8786", {"num_workers": 2}, "num_workers: the cluster behind the scheduler says"),
        ("local", {"num_workers": 0}, "num_workers"),
    ):
        with pytest.raises(ValueError, match=says):
            run(table, run_folder, tmp_path / "out.csv", scheduler=scheduler, **options)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(OSError, match=r"connect to tcp://127\.0\.0\.1:9"),
    ):
        run(table, run_folder, tmp_path / "out.csv", scheduler="tcp://127.0.0.1:9")
    assert not (tmp_path / "out.csv").exists()
