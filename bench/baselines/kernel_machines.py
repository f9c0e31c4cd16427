"""Machines of molecules as rows of the tables."""

from __future__ import annotations

import time
from pathlib import Path

from wlkernelnn.bench.harness.molecule_runs import Fitted, Split
from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.machines import LinearMachine, MoleculeMachine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.training.molecules.machine import machine_named

from .molecules import Result


def fit_process(split: Split, _: Path, model: str = "auto") -> Fitted:
    """A machine by its name, fitted to ``train``, as a method of :func:`~.molecule_runs.run_method`."""
    start = time.perf_counter()
    train = split["train"]
    machine = machine_named(model, 0).fit(train)
    predictions = {part: machine.predict(split[part]) for part in split.parts if part != "train"}
    chosen: int | str
    if isinstance(machine, LinearMachine):
        chosen, parameters = machine.num_iterations_, machine.num_parameters
    else:
        chosen, parameters = machine.choice_, _parameters(machine, train)
    more = {"choice": chosen, "leave_one_out": machine.errors_}
    return Fitted(predictions, parameters, time.perf_counter() - start, more=more)


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
