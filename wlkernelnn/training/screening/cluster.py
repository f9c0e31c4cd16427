"""What a run says of lists of SMILES, on the machines of a Dask cluster, in order."""

from __future__ import annotations

import logging
import sys
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from uuid import uuid4

import joblib
import torch

from wlkernelnn.models import ColourCache
from wlkernelnn.training.molecules.columns import Model, caches_of

from .workers import FutureLike, Predicted, Task, Waiting, in_order, predict_task, rows_of

try:
    from distributed import Client, KilledWorker, LocalCluster, Worker, WorkerPlugin, get_worker
    from distributed.client import ClosedClientError, FutureCancelledError
except ImportError as error:
    raise ImportError("a scheduler needs Dask: pip install 'wlkernelnn[cluster]'") from error

logger = logging.getLogger("wlkernelnn")

LOCAL = "local"
# Tasks that wait for each thread of the cluster, and as many more that an adaptive cluster sees waiting.
AHEAD = 2
# A task that fails is tried again so often. (One whose worker dies has Dask's own limit: allowed-failures.)
RETRIES = 2
# A scheduler that does not say in so many seconds which workers it has is gone.
ANSWER = 60
# What must be of one version everywhere, for the same results as on one machine.
PACKAGES = ("wlkernelnn", "rdkit", "torch")


def predict_on_cluster(
    tasks: Iterable[Task], model: Model, batch_size: int, scheduler: str, num_workers: int | None = None
) -> Generator[Predicted, None, None]:
    """The results of tasks, in their order.

    Every worker gets the model once, when the work begins or it joins, and works on a whole task with one
    thread. A task whose worker dies goes to another one.

    Args:
        tasks: Taken one after the other, two for each thread of the cluster ahead of the results.
        model: The networks or the machine.
        batch_size: Molecules that go through a network at once.
        scheduler: The address of Dask's scheduler, such as ``"tcp://node:8786"``, or ``"local"`` for
            processes on this machine.
        num_workers: Processes on this machine; by default one per core.

    Raises:
        OSError: No scheduler answers at that address, at the start or later.
        RuntimeError: As :func:`predict_task`, or a worker has other versions of the packages.
        ChildProcessError: Several workers died of one task; says on which rows.
    """
    waiting: Waiting = deque()
    name = f"wlkernelnn-{uuid4().hex}"
    with _client(scheduler, num_workers) as client:
        client.register_plugin(_Loaded(model), name)

        def submit(task: Task) -> FutureLike:
            result: FutureLike = client.submit(_work, name, task, batch_size, pure=False, retries=RETRIES)
            return result

        def limit() -> int:
            try:
                threads = client.sync(client.scheduler.ncores, workers=None, callback_timeout=ANSWER)
                return AHEAD * (1 + sum(threads.values()))
            except OSError as error:
                raise _gone(scheduler) from error

        try:
            yield from in_order(tasks, submit, limit, waiting)
        except KilledWorker as error:
            raise ChildProcessError(
                f"several workers died, the last {error.last_worker.address}, while they predicted "
                f"{rows_of([waiting[0][0]])}; if it was memory that ran out, give them more, or predict "
                "smaller batches"
            ) from error
        except (FutureCancelledError, ClosedClientError) as error:
            raise _gone(scheduler) from error
        finally:  # no worker of a cluster that goes on keeps the model
            with suppress(OSError, FutureCancelledError, ClosedClientError):
                client.unregister_worker_plugin(name)


def _gone(scheduler: str) -> ConnectionError:
    return ConnectionError(f"the scheduler at {scheduler} went away: start it, and resume")


@contextmanager
def _client(scheduler: str, num_workers: int | None) -> Iterator[Client]:
    if scheduler != LOCAL:
        with Client(scheduler, set_as_default=False) as client:
            yield client
        return
    try:
        local = LocalCluster(
            n_workers=num_workers or joblib.cpu_count(),
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
    except RuntimeError as error:
        raise ChildProcessError(
            f"Dask's processes on this machine did not start ({error}); they import the script that "
            'runs, which needs the line if __name__ == "__main__"'
        ) from error
    with local, Client(local, set_as_default=False) as client:
        yield client


# On a worker


class _Loaded(WorkerPlugin):
    """The model, and what each thread of this worker remembers of colours.

    Raises:
        RuntimeError: On a worker with other versions of the packages.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.versions = {name: version(name) for name in PACKAGES}

    def setup(self, worker: Worker) -> None:
        here = {name: version(name) for name in PACKAGES}
        if here != self.versions:
            raise RuntimeError(f"worker {worker.address} has {here}, expected {self.versions}")
        # Dask profiles running tasks, which may stop a process for ever on Python 3.11 (cpython#106883).
        if sys.version_info < (3, 12) and (profile := worker.periodic_callbacks.pop("profile", None)):
            profile.stop()
        self.of_thread = threading.local()

    def caches(self) -> list[ColourCache] | None:
        if not hasattr(self.of_thread, "caches"):
            self.of_thread.caches = caches_of(self.model)
        caches: list[ColourCache] | None = self.of_thread.caches
        return caches


def _work(name: str, task: Task, batch_size: int) -> Predicted:
    worker = get_worker()
    loaded = worker.plugins.get(name)
    if loaded is None or not hasattr(loaded, "of_thread"):
        raise RuntimeError(f"worker {worker.address} could not load the model: its log says why")
    torch.set_num_threads(1)
    return predict_task(loaded.model, task, batch_size, loaded.caches())
