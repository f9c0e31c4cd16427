"""Work that several processes do together: they are started here, or were started by torchrun or SLURM."""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from pytorch_lightning.plugins.environments import ClusterEnvironment, LightningEnvironment

from wlkernelnn.utils.guard import NO_GUARD, check_main_module
from wlkernelnn.utils.interrupts import sigterm_interrupts, without_interrupts

from .group import connected, environment_of, is_lost, is_started_outside, join, leave, share
from .options import LoopOptions

logger = logging.getLogger("wlkernelnn")

#: What each process does: a method of an object that pickle takes.
Work = Callable[[ClusterEnvironment], Any]

# Processes start afresh: a fork would inherit locks that torch's threads hold.
START = "spawn"
# Once a process has ended with an error, the others have that many seconds to say theirs.
GRACE = 3.0


def together(work: Work, options: LoopOptions) -> Any:
    """Do some work in as many processes as the options ask for.

    Returns:
        The first process's result, in the process that started them; of processes that ``torchrun`` or
        ``srun`` started, each one's own.

    Raises:
        Exception: An error of the work, in any process.
        ChildProcessError: A process was killed; says which.
    """
    environment = environment_of(options)
    if options.devices * options.num_nodes == 1:
        return work(environment)
    if not is_started_outside(environment):
        return _start(work, options)
    with connected():
        join(environment)
        return share(work)(environment)


def is_follower(options: LoopOptions) -> bool:
    """Whether ``torchrun`` or ``srun`` started this process beside the first one."""
    environment = environment_of(options)
    return is_started_outside(environment) and environment.global_rank() > 0


def follow(options: LoopOptions) -> bool:
    """Take part in all trainings of the first process, if ``torchrun`` or ``srun`` started this one too.

    For commands: only the first process reads data and writes files; in the end it calls :func:`dismiss`.

    Returns:
        Whether that was so, and nothing is left to do.
    """
    environment = environment_of(options)
    if is_started_outside(environment):
        with connected():
            join(environment)
            while is_follower(options):
                if (work := share(None)) is None:
                    leave()
                    return True
                work(environment)
                share(None)  # of the result
    return False


def dismiss(options: LoopOptions) -> None:
    """Let the processes that follow this one end."""
    if is_started_outside(environment_of(options)):
        share(None)
        leave()


def _start(work: Work, options: LoopOptions) -> Any:
    check_main_module()
    try:
        packed = pickle.dumps(work)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"devices={options.devices}: other processes cannot be sent the training: {error}"
        ) from error
    context = multiprocessing.get_context(START)
    port, told = LightningEnvironment().main_port, logger.level if logger.handlers else None
    processes, connections = [], []
    with sigterm_interrupts():
        try:
            for rank in range(options.devices):
                ours, theirs = context.Pipe()
                arguments = (rank, options.devices, port, torch.get_num_threads(), told, theirs)
                process = context.Process(target=_work, args=arguments, daemon=True)  # type: ignore[attr-defined]
                with without_interrupts():
                    process.start()
                    processes.append(process)
                theirs.close()
                connections.append(ours)
            for connection in connections:
                # Not among the arguments: for a process that ends before it reads these, one waits for ever.
                with suppress(OSError):
                    connection.send_bytes(packed)
            return _result(processes, connections)
        finally:
            for process in processes:
                process.kill()  # files are written whole or not at all
                process.join()


def _result(processes: list[Any], connections: list[Any]) -> Any:
    """The first process's result; else the error that ended the training, not one of those that it led to."""
    waiting: dict[Any, int] = dict(zip(connections, range(len(processes)), strict=True))
    results: dict[int, Any] = {}
    errors: list[BaseException] = []
    dead: list[int] = []
    while waiting:
        failed = bool(errors or dead)
        ready: list[Any] = wait([*waiting], timeout=GRACE if failed else None)
        if failed and not ready:
            break
        for connection in ready:
            rank = waiting.pop(connection)
            try:
                result, error = connection.recv()
            except (EOFError, OSError):  # it ended without a word
                dead.append(rank)
                continue
            results[rank] = result
            errors += [] if error is None else [error]
    if dead:
        processes[dead[0]].join()
        raise _dead(dead[0], processes[dead[0]].exitcode, len(processes))
    if errors:
        raise next((error for error in errors if not is_lost(error)), errors[0])
    return results[0]


def _dead(rank: int, status: int, count: int) -> Exception:
    if status == NO_GUARD:
        return ValueError(
            f"devices={count}: other processes import the script that runs, and it lacks the line "
            'if __name__ == "__main__": put what the script does behind that line'
        )
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return ChildProcessError(
        f"process {rank} of the training (0 … {count - 1}) {how}; the training can be resumed"
    )


def _work(rank: int, count: int, port: int, threads: int, told: int | None, connection: Connection) -> None:
    """In a process that was started: do the work, and send what it returns or why it failed."""
    follow_parent()
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_RANK": str(rank)}
    torch.set_num_threads(max(1, threads // count))
    if told is not None and rank == 0:
        logger.setLevel(told)
        logger.addHandler(logging.StreamHandler())
    environment = LightningEnvironment()
    environment.set_world_size(count)
    environment.set_global_rank(rank)
    try:
        work = pickle.loads(connection.recv_bytes())  # a pipe that only the parent writes to
        join(environment)
        result, error = work(environment), None
        leave()
    except BaseException as raised:
        result, error = None, raised
        error.add_note("".join(traceback.format_exception(error)))
        try:
            pickle.loads(pickle.dumps(error))  # made here: only to see whether the pipe will take it
        except Exception:  # of a class with other arguments
            error = ChildProcessError(f"{type(error).__name__}: {error}")
    connection.send((result if rank == 0 else None, error))


class Pool(ProcessPoolExecutor):
    """Processes that start afresh, and end at once, whatever they do, when the ``with`` block does.

    Attributes:
        children: The processes.
    """

    def __init__(self, count: int, initializer: Callable[..., object], *initargs: Any) -> None:
        context = multiprocessing.get_context("spawn")
        super().__init__(count, context, initializer=initializer, initargs=initargs)
        self.children: set[BaseProcess] = set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        with without_interrupts():
            others = {*multiprocessing.active_children()}
            future = super().submit(fn, *args, **kwargs)
            self.children |= {*multiprocessing.active_children()} - others
        return future

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.kill()
        self.shutdown(cancel_futures=True)


def follow_parent() -> None:
    """In a process that was started: leave Ctrl-C to the parent, and end when it ends or is killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end, daemon=True).start()
