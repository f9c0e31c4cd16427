"""The kernel machine of molecules, as a row of the tables."""

from __future__ import annotations

import time
from pathlib import Path

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.machines import MoleculeMachine
from wlkernelnn.machines.parts import FEATURES

from .molecules import Result


def fit_process(split: Split, _: Path) -> Fitted:
    """The default machine, fitted to ``train``, as a method of :func:`~.molecule_runs.run_method`."""
    start = time.perf_counter()
    train = split["train"]
    machine = MoleculeMachine().fit(train)
    predictions = {part: machine.predict(split[part]) for part in split.parts if part != "train"}
    more = {"choice": machine.choice_, "leave_one_out": machine.errors_}
    return Fitted(predictions, _parameters(machine, train), time.perf_counter() - start, more=more)


def kernel_machine(train: PackedGraphs, test: PackedGraphs) -> Result:
    """The default machine, its features included in the seconds."""
    start = time.perf_counter()
    described, others = (
        featurize(part.smiles, features=FEATURES)[0].with_targets(part.y, **part.description.of_set())
        for part in (train, test)
    )
    machine = MoleculeMachine().fit(described)
    prediction = machine.predict(others)
    return Result("kernel machine", prediction, _parameters(machine, train), time.perf_counter() - start)


def _parameters(machine: MoleculeMachine, train: PackedGraphs) -> int:
    return len(train) * train.num_tasks + machine.num_parameters
