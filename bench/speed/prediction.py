"""Prediction of long tables of SMILES: beside parsing them alone, in bounded memory, resumed after a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from rdkit import Chem, rdBase

from wlkernelnn.bench.harness.options import TableOptions
from wlkernelnn.bench.harness.races import Known, Race, Ratio, compared
from wlkernelnn.bench.harness.timing import anonymous, race, torch_settings
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.models import GraphKernelNetwork
from wlkernelnn.training import predict_tables, save_checkpoint
from wlkernelnn.training.screening.filling import ROWS
from wlkernelnn.training.screening.parts import MANIFEST

GOAL = 0.75
# The most that memory may grow from the second table to the longest.
GROWTH = 1.25
QUICK_MOLECULES, QUICK_ROWS = 100, (200, 600, 20_000)

LEGEND = """Rows per second from a CSV file to a CSV file, and bytes. The rows are the molecules of a data set
written as random SMILES from a seed: hardly any two are the same, but each molecule comes again, and the
states of its atoms' colours may then be there already. One row in a thousand does not parse. The network is
the default one with its initial weights.

* parse alone: `Chem.MolFromSmiles` of every row, the molecules dropped: the floor of any prediction. In
  several processes, each has a part of the rows.
* predict: from reading the table to joining the parts. One process is this one, on one thread. Several: all
  of `wlkernelnn predict`, by how much longer the longest table takes than the one before it, which leaves the
  start of the processes out; taken once.
* each once: the molecules of the data set as they are, one row each. States of colours that they share with
  molecules before them are still there already.
* memory: pages of a process that no file stands behind, at most during the command; "others" is the largest
  of the processes that it starts. The ratio is the shorter table's to the longer table's.
"""


def random_smiles(smiles: Sequence[str], copies: int, seed: int) -> list[str]:
    with rdBase.BlockLogs():
        return [
            written
            for number, text in enumerate(smiles, 1)
            for written in Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(text), copies, seed + number)
        ]


def table_of(data: PackedGraphs, rows: int, path: Path) -> None:
    """Write a table of so many rows, every thousandth of which is no molecule."""
    smiles = data.smiles
    chunks = [smiles[begin : begin + 1000] for begin in range(0, len(smiles), 1000)]
    copies = -(-rows // len(data))
    made = joblib.Parallel(n_jobs=-1)(
        joblib.delayed(random_smiles)(chunk, copies, 1000 * number) for number, chunk in enumerate(chunks)
    )
    every = np.array([text for part in made for text in part], dtype=object)
    taken = every[np.random.default_rng(0).permutation(len(every))[:rows]]
    taken[::1000] = "C1CC"
    write_rows(taken, path)


def write_rows(smiles: Sequence[str] | np.ndarray, path: Path) -> Path:
    pd.DataFrame({"smiles": smiles, "number": range(len(smiles))}).to_csv(path, index=False)
    return path


def smiles_of(table: Path, rows: int | None = None) -> list[str]:
    """The first rows of a table."""
    return pd.read_csv(table, nrows=rows, keep_default_na=False)["smiles"].tolist()


def parse(smiles: Sequence[str]) -> None:
    with rdBase.BlockLogs():
        for text in smiles:
            Chem.MolFromSmiles(text)


def parse_in_processes(parts: Sequence[Sequence[str]]) -> None:
    joblib.Parallel(n_jobs=len(parts))(joblib.delayed(parse)(part) for part in parts)


COMMAND = (sys.executable, "-m", "wlkernelnn", "predict")


@dataclass(frozen=True)
class Run:
    """Wall time of ``wlkernelnn predict``, and the most bytes of its process and of the largest other."""

    seconds: float
    main: int
    worker: int


def command(table: Path, model: Path, output: Path, processes: int, *more: str) -> list[str]:
    options = {"test-path": table, "model-path": model, "preds-path": output, "num-workers": processes}
    words = [f"--{name}={value}" for name, value in options.items()]
    return [*COMMAND, *words, *more]


def watched(words: Sequence[str], kill_after: int | None = None, manifest: Path | None = None) -> Run:
    """Run a command, and kill it once ``manifest`` has so many parts; a RuntimeError if it fails or ends."""
    start = time.perf_counter()
    main = worker = 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            main = max(main, held(process.pid))
            worker = max([worker, *map(held, children(process.pid))])
            if kill_after is not None and manifest is not None and parts_in(manifest) >= kill_after:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.02)
        _, said = process.communicate()
    killed = process.returncode == -signal.SIGKILL
    if process.returncode and not (killed and kill_after is not None):
        raise RuntimeError(f"{' '.join(words)}: ended with {process.returncode}: {said[-2000:]}")
    if kill_after is not None and not killed:
        raise RuntimeError(f"{' '.join(words)}: ended before it had {kill_after} parts")
    return Run(time.perf_counter() - start, main, worker)


def parts_in(manifest: Path) -> int:
    return len(json.loads(manifest.read_text(encoding="utf-8"))["parts"]) if manifest.is_file() else 0


def held(pid: int) -> int:
    try:
        return anonymous(pid)
    except OSError:  # it is gone
        return 0


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def speed_rows(
    once: Path, short: Path, long: Path, model: Path, processes: int, runs: dict[int, Run], rounds: int
) -> Iterator[Ratio]:
    """Prediction beside parsing, in this process and in several."""
    single, few, many = smiles_of(once), smiles_of(short), smiles_of(long)
    parts = [many[part::processes] for part in range(processes)]
    output = short.with_name("raced.csv")
    rejects = output.with_suffix(".rejects.csv")
    predict = partial(predict_tables, model_path=model, output=output, rejects_path=rejects, num_workers=0)
    work: list[tuple[Callable[[], object], int]] = [
        (partial(predict, [once]), len(single)),
        (partial(parse, single), len(single)),
        (partial(predict, [short]), len(few)),
        (partial(parse, few), len(few)),
        (partial(parse_in_processes, parts), len(many)),
    ]
    with torch_settings(1):
        new, parse_new, one, parse_one, parse_several = race(*zip(*work, strict=True), rounds=rounds)
    yield compared("predict, 1 process, each once", "parse alone", new, parse_new)
    yield compared("predict, 1 process", "parse alone", one, parse_one, GOAL)
    shorter, longer = sorted(runs)[-2:]
    seconds = runs[longer].seconds - runs[shorter].seconds
    rate = np.array([(longer - shorter) / seconds])
    several, theirs = f"predict, {processes} processes", np.median(parse_several, keepdims=True)
    yield compared(several, f"parse alone, {processes} processes", rate, theirs, GOAL)


def memory_rows(runs: dict[int, Run]) -> Iterator[Ratio]:
    """The memory of the command for the longest table beside that for the others."""
    *fewer, most = sorted(runs)
    for rows in fewer:
        for name, process in (("main process", "main"), ("others", "worker")):
            ours, theirs = (getattr(runs[number], process) for number in (most, rows))
            ratio = theirs / ours
            goal = ("", None) if rows != fewer[-1] else (f"≥ {1 / GROWTH:g}", ratio >= 1 / GROWTH)
            what = f"memory, {most:,} rows, {name}"
            yield Ratio(what, f"{rows:,} rows", ours, theirs, ratio, ratio, ratio, *goal)


def output_of(table: Path) -> Path:
    return table.with_suffix(".predicted.csv")


def resumed(table: Path, model: Path, processes: int) -> str:
    """Kill a run and resume it; a RuntimeError if the result is not that of a run without interruption."""
    whole, output = output_of(table), table.with_suffix(".resumed.csv")
    manifest = output.with_name(f"{output.name}.parts") / MANIFEST
    watched(command(table, model, output, processes), kill_after=2, manifest=manifest)
    kept = parts_in(manifest)
    if output.exists():
        raise RuntimeError(f"{output}: there although the run was killed")
    watched(command(table, model, output, processes, "--resume"))
    ours, theirs = pd.read_csv(output), pd.read_csv(whole)
    try:
        # Predictions are those of other batches: they may differ by rounding.
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-5, atol=1e-6)
    except AssertionError as error:
        raise RuntimeError(f"{output}: not what a run without a kill writes") from error
    rejects = [path.with_suffix(".rejects.csv").read_bytes() for path in (output, whole)]
    if rejects[0] != rejects[1]:
        raise RuntimeError(f"{output}: not the rejected rows of a run without a kill")
    return f"killed (SIGKILL) after {kept} parts, resumed: row by row the same as without a kill"


def rows_of(
    data: PackedGraphs, folder: Path, sizes: Sequence[int], rounds: int, known: Known
) -> Iterator[Ratio]:
    """Everything, in ascending order of sizes."""
    processes = max(2, os.cpu_count() or 1)
    about = data.description
    description = {"features": about.features, "target_names": list(about.target_names), "name": about.name}
    description["task"] = data.task or "regression"
    model = folder / "model"
    save_checkpoint(model, GraphKernelNetwork.from_data(data), description)
    table = folder / f"{sizes[-1]}.csv"
    table_of(data, sizes[-1], table)
    tables = [(rows, write_rows(smiles_of(table, rows), folder / f"{rows}.csv")) for rows in sizes[:-1]]
    tables.append((sizes[-1], table))
    runs = {rows: watched(command(path, model, output_of(path), processes)) for rows, path in tables}
    for rows, run in runs.items():
        known[f"wlkernelnn predict, {rows:,} rows, {processes} processes"] = (
            f"{run.seconds:.1f} s; main process {run.main / 1e6:,.0f} MB, largest other "
            f"{run.worker / 1e6:,.0f} MB"
        )
    yield from memory_rows(runs)
    if sizes[1] > 4 * ROWS:
        known["kill and resume"] = resumed(tables[1][1], model, processes)
    once = write_rows(data.smiles, folder / "once.csv")
    yield from speed_rows(once, tables[0][1], tables[1][1], model, processes, runs, rounds)


@dataclass
class PredictSpeedOptions(TableOptions):
    """What is measured, and where results go.

    Args:
        quick: Few rows and one round: only to see that everything works.
        dataset: The published data set whose molecules these are.
        rows: Rows of three tables, ascending: raced in one process, in several, and only for the memory.
        rounds: Turns that count.

    Raises:
        ValueError: The numbers of rows do not ascend.
    """

    dataset: str = "cep"
    rows: tuple[PositiveInt, PositiveInt, PositiveInt] = (65_536, 200_000, 1_000_000)
    rounds: PositiveInt = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.quick:
            self.rows, self.rounds = QUICK_ROWS, 1
        if list(self.rows) != sorted(set(self.rows)):
            raise ValueError(f"--rows: expected three numbers, ascending, got {list(self.rows)}")


def measure(options: PredictSpeedOptions, known: Known) -> Iterator[Ratio]:
    """All rows."""
    known |= {"dataset": options.dataset, "rows of a part": ROWS, "rounds": options.rounds}
    data = load_molecules(options.dataset)
    with tempfile.TemporaryDirectory() as folder:
        some = data[:QUICK_MOLECULES] if options.quick else data
        yield from rows_of(some, Path(folder), options.rows, options.rounds, known)


TITLE = "Prediction of long tables"
main = Race("predict-speed", __doc__, PredictSpeedOptions, TITLE, LEGEND, measure, ("pyarrow",)).main
