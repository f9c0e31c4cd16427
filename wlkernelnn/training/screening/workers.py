"""What a run says of lists of SMILES, here or in other processes, in order."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import torch

from wlkernelnn.datasets import Reject, featurize
from wlkernelnn.datasets.molecules.smiles import MAX_LENGTH
from wlkernelnn.models import ColourCache
from wlkernelnn.training.molecules.columns import Columns, Model, caches_of, digests, load_run
from wlkernelnn.training.processes import Pool, follow_parent
from wlkernelnn.utils.checks import NotFiniteError
from wlkernelnn.utils.guard import NO_GUARD

logger = logging.getLogger("wlkernelnn")

# Why a molecule has no prediction.
NOT_FINITE = "the prediction is not a finite number"


class Task(NamedTuple):
    """Some consecutive rows of an input.

    Attributes:
        first: The number of the first of them.
        smiles: What stands in each.
        columns: Which columns each gets.
        max_length: Longer SMILES, in characters, give no molecule.
    """

    first: int
    smiles: list[object]
    columns: Columns = Columns()
    max_length: int = MAX_LENGTH


class Predicted(NamedTuple):
    """What came of a :class:`Task`.

    Attributes:
        position: int64 ``[B]``: positions in the task that are molecules, ascending.
        values: floats ``[B, columns]``, see :class:`Columns`.
        rejects: The other positions, with their rows in the input and reasons.
        classes: Names of the classes whose numbers are in the first column, if they have names.
    """

    position: np.ndarray
    values: np.ndarray
    rejects: list[Reject]
    classes: Sequence[str] = ()

    @property
    def columns(self) -> list[np.ndarray]:
        if not self.classes:
            return [*self.values.T]
        return [np.array(self.classes, dtype=object)[self.values[:, 0].astype(int)], *self.values.T[1:]]


class FutureLike(Protocol):
    """A result that may still be on its way, of an executor or of Dask."""

    def result(self) -> Predicted: ...


Waiting = deque[tuple[Task, FutureLike]]


def predict_task(
    model: Model, task: Task, batch_size: int, caches: Sequence[ColourCache] | None = None
) -> Predicted:
    """Featurize and predict.

    Raises:
        RuntimeError: Something went wrong other than a row that is no molecule; says in which row.
    """
    rows = range(task.first, task.first + len(task.smiles))
    try:
        data, rejects = featurize(
            task.smiles,
            features=model.about["features"],
            rows=rows,
            max_length=task.max_length,
            num_workers=0,
        )
        try:
            values = task.columns.values(model, data, batch_size, caches)
        except NotFiniteError as error:
            if len(error.positions) == len(data):
                raise
            wrong = data[error.positions].row.tolist()
            cells = [(row, task.smiles[row - task.first]) for row in wrong]
            rejects = sorted([*rejects, *(Reject(row, cell, NOT_FINITE) for row, cell in cells)])
            data = data[np.setdiff1d(np.arange(len(data)), error.positions)]
            values = task.columns.values(model, data, batch_size)
    except Exception as error:
        said = f"{type(error).__name__}: {str(error).strip()[:500]}"
        if len(rows) == 1:
            raise RuntimeError(f"data row {task.first + 1}: {task.smiles[0]!r}: {said}") from error
        for row, smiles in zip(rows, task.smiles, strict=True):
            predict_task(model, task._replace(first=row, smiles=[smiles]), batch_size)
        raise RuntimeError(f"{rows_of([task])}: {said}, but not for any of them alone") from error
    classes = model.about.get("classes", ()) if task.columns.kind == "prediction" else ()
    return Predicted(data.row.numpy() - task.first, values, rejects, classes)


def predict_tasks(
    tasks: Iterable[Task],
    model_path: Path,
    model: Model,
    batch_size: int,
    num_workers: int,
    caches: Sequence[ColourCache] | None = None,
) -> Generator[Predicted, None, None]:
    """The results of tasks, in their order.

    Each process works on a whole task with one thread: what comes out does not depend on their number.

    Args:
        tasks: Taken one after the other, two for each process ahead of the results.
        model_path: Where a process finds the networks or the machine.
        model: The same, for this process.
        batch_size: Molecules that go through a network at once.
        caches: States of earlier tasks, see :meth:`Ensemble.caches`; those of this process alone.
        num_workers: Processes to start, which import the main module anew: a script that gets here needs the
            usual ``if __name__ == "__main__"``; without it all is done in this process, with a warning. 0
            works in this process.

    Raises:
        RuntimeError: As :func:`predict_task`, or the files at ``model_path`` are not those of ``model`` any
            more.
        ChildProcessError: A process died; says on which rows it may have worked.
    """
    if num_workers == 0:
        yield from _here(tasks, model, batch_size, caches)
        return
    tasks = iter(tasks)
    waiting: Waiting = deque()
    with Pool(num_workers, _start, model_path, digests(model)) as pool:
        try:
            yield from in_order(
                tasks, lambda task: pool.submit(_work, task, batch_size), lambda: 2 * num_workers, waiting
            )
        except BrokenProcessPool as error:
            pool.shutdown()  # now all have ended
            if not any(child.exitcode == NO_GUARD for child in pool.children):
                raise ChildProcessError(
                    f"a process died while {rows_of([task for task, _ in waiting])} were being predicted; if "
                    "it was memory that ran out, try fewer processes or smaller batches"
                ) from error
    if waiting:
        logger.warning(
            'other processes import the script that runs, and it lacks the line if __name__ == "__main__": '
            "all is done in this process (put what the script does behind that line, and all cores are used)"
        )
        yield from _here(chain((task for task, _ in waiting), tasks), model, batch_size, caches)


def in_order(
    tasks: Iterable[Task],
    submit: Callable[[Task], FutureLike],
    limit: Callable[[], int],
    waiting: Waiting,
) -> Iterator[Predicted]:
    """The results of tasks, in their order.

    Args:
        tasks: Taken one after the other.
        submit: Begins a task.
        limit: How many tasks may have begun whose results were not taken.
        waiting: Filled with these.
    """
    for task in tasks:
        waiting.append((task, submit(task)))
        if len(waiting) > limit():
            yield waiting[0][1].result()
            waiting.popleft()
    while waiting:
        yield waiting[0][1].result()
        waiting.popleft()


def _here(
    tasks: Iterable[Task], model: Model, batch_size: int, caches: Sequence[ColourCache] | None
) -> Iterator[Predicted]:
    """The results of tasks, in this process, with one thread."""
    for task in tasks:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            result = predict_task(model, task, batch_size, caches)
        finally:
            torch.set_num_threads(threads)
        yield result


# In another process

_model: Model | None = None
_caches: list[ColourCache] | None = None
_failure = ""


def _start(model_path: Path, expected: list[str]) -> None:
    """Load the model: the same that the other processes have."""
    global _model, _caches, _failure
    follow_parent()
    torch.set_num_threads(1)
    try:
        model = load_run(model_path)
    except (OSError, ValueError) as error:
        _failure = f"the model could not be read again: {error}"
        return
    if digests(model) != expected:
        _failure = f"{model_path}: was replaced while processes started: start again"
        return
    _model, _caches = model, caches_of(model)


def _work(task: Task, batch_size: int) -> Predicted:
    if _model is None:
        raise RuntimeError(_failure)
    return predict_task(_model, task, batch_size, _caches)


def rows_of(tasks: Sequence[Task]) -> str:
    return f"data rows {tasks[0].first + 1:,} … {tasks[-1].first + len(tasks[-1].smiles):,}"
