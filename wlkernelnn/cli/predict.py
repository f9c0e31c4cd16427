"""Predict for every row of a table of SMILES, in order."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wlkernelnn.training.options import BATCH

from .options import PositiveInt, VerbParser, add_options, check_outputs, pick

if TYPE_CHECKING:
    from wlkernelnn.training.screening.parts import Counts

logger = logging.getLogger("wlkernelnn")


@dataclass
class TableOptions:
    """What is read, by what, and where it goes.

    Args:
        test_path: Tables with the same columns, or folders of such files: CSV, TSV, Parquet, SDF (with its
            properties as columns), .smi files of SMILES and names, or the first sheet of Excel workbooks.
            They are read piece by piece and may be of any length.
        model_path: A run folder of "wlkernelnn train", or one network's folder in it.
        smiles_columns: The column of SMILES; by default the one called smiles, or those that the model was
            trained on with --join-smiles.
        rejects_path: CSV file for the rows that gave no molecule; by default beside preds_path.
        max_length: Longer SMILES, in characters, give no molecule.
        batch_size: Molecules at once: more are faster and take more memory.
        num_workers: Processes that work on parts of the input, each with one thread; by default all cores
            where it pays.
        scheduler: Work on a Dask cluster (extra cluster): the address of its scheduler, such as
            tcp://node:8786, or "local" for num_workers processes of Dask on this machine.
        resume: Go on with a run that was interrupted.
    """

    test_path: list[Path]
    model_path: Path
    preds_path: Path
    smiles_columns: list[str] | None = None
    on_invalid: Literal["raise", "skip", "nan"] = "nan"
    rejects_path: Path | None = None
    max_length: PositiveInt = 5000
    batch_size: int = BATCH
    num_workers: int | None = None
    scheduler: str | None = None
    resume: bool = False


@dataclass
class PredictOptions(TableOptions):
    """What to predict, with what, into which file.

    Args:
        preds_path: Where predictions go, a .csv or .parquet file, or without such an ending a folder of
            Parquet files: the columns of the input, a column per target (called <target>_pred where the input
            has one of its name), for several networks and --loss mve the deviation as <target>_std (of a new
            measurement where the run has been calibrated, else over the networks), of quantiles a column
            each, <target>_q0.05, and of classes with names their probabilities, <target>_p_<class>.
        on_invalid: Rows that give no molecule: "nan" keeps them with empty predictions, "skip" leaves them
            out, "raise" stops.
        std: Also the standard deviation of a new measurement, as <target>_std. Networks have it where their
            run had at least 10 validation molecules; several networks without it give their spread, and those
            of --loss mve or quantile what they learned.
        interval: Also the bounds, <target>_low and <target>_high, between which a new measurement lies with
            this probability, such as 0.9. Of networks with quantiles two of these, which must be there.
        nearest: Of a kernel machine: also how similar the nearest training molecule is, from 0 to 1, as
            nearest_similarity: where it is low, predictions are hardly more than the mean, and a warning
            counts the molecules where it is 0.
    """

    std: bool = False
    interval: float | None = None
    nearest: bool = False


def main(argv: list[str] | None = None) -> None:
    run("predict", __doc__, PredictOptions, argv)


def run(
    verb: Literal["predict", "fingerprint"],
    description: str | None,
    kind: type[TableOptions],
    argv: list[str] | None,
) -> None:
    """A verb that gives every row of a table further columns."""
    parser = VerbParser(verb, description)
    add_options(parser, "Options", kind)
    options = kind(**pick(parser.parse_args(argv), kind))
    rejects_path = rejects_beside(options.preds_path, options.rejects_path, options.test_path)
    # Help does not wait for torch.
    from wlkernelnn.training import Columns, predict_tables

    columns = Columns("fingerprint")
    if isinstance(options, PredictOptions):
        columns = Columns("prediction", options.std, options.interval, options.nearest)

    counts = predict_tables(
        options.test_path,
        options.model_path,
        options.preds_path,
        rejects_path,
        smiles_column=options.smiles_columns,
        on_invalid=options.on_invalid,
        max_length=options.max_length,
        batch_size=options.batch_size,
        num_workers=options.num_workers,
        scheduler=options.scheduler,
        resume=options.resume,
        progress=True,
        columns=columns,
    )
    done = "predicted" if verb == "predict" else "embedded"
    none = "gives a molecule: is their SMILES in another column (--smiles-columns)?"
    tell(counts, done, none, options.preds_path, rejects_path)


def rejects_beside(preds_path: Path, rejects_path: Path | None, test_path: list[Path]) -> Path:
    """Where rejected rows go, once all outputs are seen to be fine: by default beside the predictions."""
    if preds_path.suffix not in (".csv", ".parquet", ""):
        raise ValueError(
            f"--preds-path: expected a name in .csv or .parquet, or a folder's without a dot, got "
            f"{preds_path}"
        )
    rejects_path = rejects_path or preds_path.with_suffix(".rejects.csv")
    folders = () if preds_path.suffix else ("--preds-path",)
    check_outputs({"--preds-path": preds_path, "--rejects-path": rejects_path}, test_path, folders)
    if folders and preds_path.resolve() in rejects_path.resolve().parents:
        raise ValueError(f"--rejects-path: {rejects_path} lies in --preds-path, as if it were part of it")
    return rejects_path


def tell(counts: Counts, done: str, none: str, preds_path: Path, rejects_path: Path) -> None:
    """Print what became of the rows; ``none`` is what to say where all were rejected: "none of 3 rows …"."""
    reasons = f" (reasons in {rejects_path})" if counts.rejected else ""
    print(
        f"{counts.read:,} rows in = {counts.read - counts.rejected:,} {done} + {counts.rejected:,} "
        f"rejected{reasons}; {counts.written:,} rows out: {preds_path}"
    )
    if counts.read and counts.rejected == counts.read:
        logger.warning(f"none of {counts.read:,} rows {none}")
