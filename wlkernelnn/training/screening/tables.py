"""Predictions for tables of SMILES of any length."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path

import joblib
import rdkit
import torch

from wlkernelnn.datasets.files.components import joined_smiles, smiles_columns_of
from wlkernelnn.datasets.molecules.from_table import OnInvalid
from wlkernelnn.datasets.molecules.smiles import MAX_LENGTH
from wlkernelnn.training.molecules.columns import Columns, caches_of, columns_read, digests, load_run
from wlkernelnn.training.molecules.ensemble import Kind
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_count
from wlkernelnn.utils.guard import check_main_module

from .filling import Filling, Piece, fill_tables
from .parts import Counts
from .workers import Predicted, Task, predict_tasks

# With fewer parts the start of processes (some seconds) takes longer than it saves.
PARALLEL_FROM = 3


def predict_tables(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    model_path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rejects_path: str | os.PathLike[str],
    *,
    smiles_column: str | Sequence[str] | None = None,
    on_invalid: OnInvalid = "nan",
    max_length: int = MAX_LENGTH,
    batch_size: int = BATCH,
    num_workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    progress: bool = False,
    columns: Columns | Kind = "prediction",
) -> Counts:
    """Predict, or embed, every row of one or several tables, in order, in bounded memory.

    Finished parts are kept in a folder: ``output`` itself or, for a single file, one beside it that goes when
    the file is written (an input of one part needs none). A run that was killed leaves them there. How parts
    are shared out among processes and runs decides which states of colours are there already: it may change
    the rounding of a prediction.

    Args:
        inputs: A table (see :func:`~wlkernelnn.datasets.read_table`), a folder of such, or several of these
            with the same columns.
        model_path: A run folder, see :func:`load_run`.
        output: A ``.csv`` or ``.parquet`` file, or, without a suffix, a folder of Parquet files. Like the
            next, it must not be one of the inputs.
        rejects_path: CSV file for the rows that gave no molecule.
        smiles_column: The column of SMILES; by default the one called smiles, or those that the model was
            trained on if several were joined. Of others there must be as many.
        on_invalid: Rows that give no molecule: ``"nan"`` keeps them with empty predictions, ``"skip"`` leaves
            them out, ``"raise"`` stops at the first part that has any.
        max_length: Longer SMILES, in characters, give no molecule.
        batch_size: Molecules that go through a network at once.
        num_workers: Processes to start; 0 works in this one. Default: one per core if the input is long.
        scheduler: Work on a Dask cluster (extra ``cluster``): the address of its scheduler, such as
            ``"tcp://node:8786"``, or ``"local"`` for ``num_workers`` processes of Dask on this machine.
        resume: Keep the parts that an earlier run of the same input, networks and options finished.
        progress: Show on stderr how far it is.
        columns: What every row gets, see :class:`Columns`, or only its kind: a ``"prediction"`` of each
            target (called ``<target>_pred`` where the input has a column of the target's name), or its
            ``"fingerprint"``, the vectors that the heads of the networks see.

    Returns:
        How many rows were read, rejected and written.

    Raises:
        FileNotFoundError: An input or the networks are not there.
        FileExistsError: There are parts of an earlier run, and ``resume`` is off, the folder for parts holds
            other files, or another process works there.
        ValueError: An input cannot be read, inputs differ in their columns or have one of the name of a new
            one that is no target, a row gives no molecule and ``on_invalid`` is ``"raise"``, or the run to
            resume was another one.
    """
    check_main_module()
    check_count("batch_size", batch_size)
    if num_workers is not None:
        check_count("num_workers", num_workers, least=0 if scheduler is None else 1)
    if scheduler not in (None, "local"):
        if "://" not in scheduler:
            raise ValueError(
                f"scheduler: expected an address such as tcp://node:8786, or local, got {scheduler!r}"
            )
        if num_workers is not None:
            raise ValueError("num_workers: the cluster behind the scheduler says how many there are")
    columns = Columns(columns) if isinstance(columns, str) else columns
    model = load_run(model_path)
    read = columns_read(model, smiles_column)

    def fill(pieces: Iterator[Piece]) -> Generator[Predicted, None, None]:
        ahead = list(islice(pieces, PARALLEL_FROM))
        tasks = (
            Task(piece.first, joined_smiles(piece.cells, max_length), columns, max_length)
            for piece in chain(ahead, pieces)
        )
        if scheduler is not None:
            from .cluster import predict_on_cluster

            return predict_on_cluster(tasks, model, batch_size, scheduler, num_workers)
        default = joblib.cpu_count() if len(ahead) == PARALLEL_FROM else 0
        processes = default if num_workers is None else num_workers
        # A single piece has nothing to remember for others.
        caches = caches_of(model) if len(ahead) > 1 else None
        return predict_tasks(tasks, Path(model_path), model, batch_size, processes, caches)

    filling = Filling(
        names=columns.names(model),
        measured=model.about["target_names"] if columns.kind == "prediction" else (),
        origin={
            "networks": digests(model),
            "options": {
                "smiles_column": read,
                "on_invalid": on_invalid,
                "max_length": max_length,
                "batch_size": batch_size,
                "columns": asdict(columns),
            },
            "versions": {"rdkit": rdkit.__version__, "torch": torch.__version__},
        },
        what="molecule",
        columns_of=lambda names, where: smiles_columns_of(names, read, where),
        fill=fill,
        reject_column="smiles",
    )
    return fill_tables(
        inputs, output, rejects_path, filling, on_invalid=on_invalid, resume=resume, progress=progress
    )
