"""Predict for every row of a table of SMILES, in order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from wlkernelnn.datasets import molecules_from, read_table
from wlkernelnn.datasets.molecules import smiles_column_of
from wlkernelnn.files import atomic_path
from wlkernelnn.training import load_ensemble

from .data import one_column
from .options import add_options, pick, verb_parser


@dataclass
class PredictOptions:
    """What to predict, with what, into which file.

    Args:
        test_path: A CSV, TSV or Parquet file.
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        preds_path: Where predictions go, .csv or .parquet: the columns of the input, a column per target (in
            place of an input column of that name), and for several networks their standard deviation as
            <target>_std.
        smiles_columns: The column of SMILES; by default the one called smiles.
        on_invalid: Rows that give no molecule: "nan" keeps them with empty predictions, "skip" leaves them
            out, "raise" stops.
        rejects_path: CSV file for the rows that gave no molecule; by default beside preds_path.
        batch_size: Molecules at once.
        num_workers: Processes that read molecules; by default all cores where it pays.
    """

    test_path: Path
    model_path: Path
    preds_path: Path
    smiles_columns: list[str] | None = None
    on_invalid: Literal["raise", "skip", "nan"] = "nan"
    rejects_path: Path | None = None
    batch_size: int = 512
    num_workers: int | None = None


def main(argv: list[str] | None = None) -> None:
    parser = verb_parser("predict", __doc__)
    add_options(parser, "Options", PredictOptions)
    options = PredictOptions(**pick(parser.parse_args(argv), PredictOptions))
    if options.preds_path.suffix not in (".csv", ".parquet"):
        raise ValueError(f"--preds-path: expected a name in .csv or .parquet, got {options.preds_path}")
    rejects_path = options.rejects_path or options.preds_path.with_suffix(".rejects.csv")
    for name, path in (("--preds-path", options.preds_path), ("--rejects-path", rejects_path)):
        if path.resolve() == options.test_path.resolve():
            raise ValueError(f"{name}: {path} is the input, which would be overwritten")

    ensemble = load_ensemble(options.model_path)
    frame = read_table(options.test_path)
    column = smiles_column_of(frame, one_column(options.smiles_columns), str(options.test_path))
    data = molecules_from(
        frame,
        smiles_column=column,
        name=str(options.test_path),
        features=ensemble.about["features"],
        on_invalid=options.on_invalid,
        rejects_path=rejects_path,
        num_workers=options.num_workers,
        progress=True,
        cache=False,  # a library is screened once
    )
    mean, std = ensemble.predict(data, options.batch_size)
    rows = data.row.numpy()
    names = ensemble.about["target_names"]
    out = frame.copy()
    for task, name in enumerate(names):
        out[name] = _in_rows(mean[:, task], rows, len(frame))
        if len(ensemble.networks) > 1:
            out[f"{name}_std"] = _in_rows(std[:, task], rows, len(frame))
    if options.on_invalid == "skip":
        out = out.iloc[rows]
    with atomic_path(options.preds_path) as temporary:
        if options.preds_path.suffix == ".csv":
            out.to_csv(temporary, index=False)
        else:
            out.to_parquet(temporary, index=False)
    reasons = f" (reasons in {rejects_path})" if data.rejects else ""
    print(
        f"{len(frame):,} rows in = {len(data):,} predicted + {len(data.rejects):,} rejected{reasons}; "
        f"{len(out):,} rows out: {options.preds_path}"
    )


def _in_rows(values: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Values at their input rows, NaN elsewhere."""
    placed = np.full(count, np.nan, dtype=np.float32)
    placed[rows] = values
    return placed
