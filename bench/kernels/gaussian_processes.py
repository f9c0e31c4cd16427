"""Seconds, memory and error of Gaussian processes on many molecules: exact, and through landmarks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.metrics import root_mean_squared_error

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race
from wlkernelnn.bench.harness.tables import Rows
from wlkernelnn.bench.harness.timing import usage
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.kernels import MoleculeKernel
from wlkernelnn.machines import GaussianProcess, MoleculeMachine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.utils.files import json_text, read_json, write_text

LEGEND = """* exact, landmarks: on the mean of six kernels (`MoleculeKernel`). auto: the default machine of
  molecules, which chooses on 2,500 rows between eight kernels, descriptors and both.
* Training rows and 2,000 test rows are drawn at random; larger training parts hold the smaller ones. All
  machines find amplitudes and noise on 800 rows.
* fit, predict: seconds of a processor, Gram matrices included, reading molecules and their descriptors apart;
  predict: mean and deviation of all test rows.
* memory: the most that the process takes beyond the molecules. Each row has a process of its own.
* 90 % covers: per cent of the test rows that lie in their interval of 90 %.
"""


@dataclass(frozen=True)
class Scale:
    """A row of the table."""

    rows: int
    machine: int | str  # so many landmarks, "exact", or "auto"
    fit: float
    predict: float
    memory: int  # bytes
    rmse: float
    covered: float


@dataclass
class ScaleOptions(TableOptions):
    """What is measured, and where results go.

    Args:
        quick: Few rows and landmarks: only to see that everything works.
        dataset: Name of a published data set of molecules with one number for a target.
        rows: Training rows.
        landmarks: Numbers of landmarks, beside the exact machine.
        auto: Training rows of the default machine of molecules; more than there are stand for all.
    """

    dataset: str = "cep"
    rows: list[PositiveInt] = field(default_factory=lambda: [5000, 10_000, 20_000])
    landmarks: list[PositiveInt] = field(default_factory=lambda: [4096])
    auto: list[PositiveInt] = field(default_factory=lambda: [30_000])


def prepared(
    dataset: str, rows: int, num_test: int, machine: int | str, file: str
) -> tuple[PackedGraphs, PackedGraphs, int | str, str]:
    """The molecules, and the rest of the arguments of :func:`fitted`."""
    data = load_molecules(dataset, features=FEATURES)
    order = np.random.default_rng(0).permutation(len(data))
    return data[order[num_test : num_test + rows]], data[order[:num_test]], machine, file


def fitted(train: PackedGraphs, test: PackedGraphs, kind: int | str, file: str) -> None:
    """Fit and predict, and write seconds and scores."""
    start = time.process_time()
    machine: Any
    if kind == "auto":
        machine = MoleculeMachine().fit(train)
    else:
        landmarks = kind if isinstance(kind, int) else None
        machine = GaussianProcess(MoleculeKernel(), num_landmarks=landmarks)
        machine.fit(train, train.y[:, 0].numpy())
    middle = time.process_time()
    mean, std = (np.reshape(values, -1) for values in machine.predict(test, return_std=True))
    found: dict[str, Any] = {"fit": middle - start, "predict": time.process_time() - middle}
    found["rows"] = len(train)
    y = test.y[:, 0].double().numpy()
    found["rmse"] = float(root_mean_squared_error(y, mean))
    found["covered"] = float(np.mean(abs(mean - y) <= norm.ppf(0.95) * std))
    write_text(file, json_text(found))


def measure(options: ScaleOptions, known: Known) -> Iterator[Scale]:
    """All rows, small ones first."""
    quick = options.quick
    num_test, sizes = (50, [100]) if quick else (2000, sorted(options.rows))
    known |= {"dataset": options.dataset, "test rows": num_test}
    machines: list[int | str] = [*([20] if quick else options.landmarks), "exact"]
    wanted = [*product(sizes, machines), *((rows, "auto") for rows in ([100] if quick else options.auto))]
    for rows, machine in wanted:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "found.json")
            used = usage(fitted, prepared, options.dataset, rows, num_test, machine, str(file))
            yield Scale(machine=machine, memory=used.peak, **read_json(file))


def shown(rows: Sequence[Scale]) -> Rows:
    """The table, its header first."""
    header = ("training rows", "machine", "fit, s", "predict, s", "memory, MB", "RMSE", "90 % covers")
    return [
        header,
        *(
            (
                f"{row.rows:,}",
                row.machine if isinstance(row.machine, str) else f"{row.machine:,} landmarks",
                f"{row.fit:.1f}",
                f"{row.predict:.1f}",
                f"{row.memory / 1e6:,.0f}",
                f"{row.rmse:.3f}",
                f"{100 * row.covered:.1f}",
            )
            for row in rows
        ),
    ]


TITLE, PACKAGES = "Gaussian processes on many molecules", ("scipy", "scikit-learn")
main = Race("gp-speed", __doc__, ScaleOptions, TITLE, LEGEND, measure, PACKAGES, shown).main
