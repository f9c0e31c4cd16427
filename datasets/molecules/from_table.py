"""Any table or list of SMILES as packed graphs."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import rdkit
from numpy.typing import ArrayLike

from wlkernelnn.datasets.files.components import joined_smiles, smiles_columns_of
from wlkernelnn.datasets.files.rejects import Reject, as_text, counted, listed, write_rejects
from wlkernelnn.datasets.files.table import (
    frame_of,
    items_of,
    place,
    read_table,
)
from wlkernelnn.datasets.files.table_chunks import read_schema, require_columns
from wlkernelnn.datasets.files.targets import (
    binary_targets,
    class_targets,
    numeric_targets,
    without_bounds,
)
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC, Description
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.graphs.store_cache import cached_store
from wlkernelnn.datasets.splits.by_kind import SplitKind
from wlkernelnn.datasets.splits.by_kind import split as split_graphs
from wlkernelnn.datasets.splits.parts import Sizes, column_split
from wlkernelnn.datasets.splits.time import ranks_of, time_split
from wlkernelnn.utils.checks import check_one_of

from .features import get_features
from .smiles import MAX_LENGTH, as_smiles, featurize

logger = logging.getLogger("wlkernelnn")

TASKS = ("regression", "classification", "ordinal")
OnInvalid = Literal["raise", "skip", "nan"]
# Part of the name of a cached store: raise it when the same input gives another store than before.
CACHE_VERSION = 6


def molecules_from(
    source: str | os.PathLike[str] | pd.DataFrame | Sequence[object] | Any,
    y: ArrayLike | None = None,
    *,
    smiles_column: str | Sequence[str] | None = None,
    target_columns: str | Sequence[str] | None = None,
    split_column: str | None = None,
    split: SplitKind | None = None,
    time_column: str | None = None,
    split_sizes: Sizes = (0.8, 0.1, 0.1),
    task: str | None = None,
    classes: tuple[str, ...] | None = None,
    censored: bool = False,
    metric: str | None = None,
    unit: str = "",
    name: str = "",
    features: str = "ogb",
    on_invalid: OnInvalid = "raise",
    rejects_path: str | os.PathLike[str] | None = None,
    max_length: int = MAX_LENGTH,
    num_workers: int | None = None,
    progress: bool = False,
    cache: bool = True,
) -> PackedGraphs:
    """Pack the molecules of a table or of a list.

    A row gives no molecule if its SMILES cannot be used, or if targets are asked for and it has none;
    ``on_invalid`` says what then happens. Rows in = molecules + rejects, always; the counts are logged.

    Args:
        source: A file (CSV, TSV, Parquet, SDF, SMILES or Excel, see
            :func:`~wlkernelnn.datasets.read_table`), a table of pandas, Polars, Arrow or another package that
            has Arrow's stream interface, or a list or column of SMILES or of RDKit's molecules, which are
            taken as their canonical SMILES.
        y: Targets ``[n]`` or ``[n, T]`` for a list; those of pandas keep their names.
        smiles_column: Default: the column called "smiles" (in any case if only one is), or the only column.
            It may hold RDKit's molecules too. Several columns, such as a drug and its solvent, make one
            molecule of several components of each row, ``drug.solvent``: a graph that is not connected, in
            which nothing says which component is which.
        target_columns: Columns of targets, or the name of one, or names for the columns of ``y``. Default:
            none. Blank cells are missing values.
        split_column: Column of the labels train, valid (or val) and test, which become ``split_idx``.
        split: ``"random"``, ``"scaffold"``, ``"flat_scaffold"`` or ``"butina"``, see
            :func:`~wlkernelnn.datasets.split`, or ``"time"`` (:func:`~wlkernelnn.datasets.time_split`):
            ``split_idx`` becomes that split (seed 0).
        time_column: Column of the times of a time split, numbers or dates.
        split_sizes: Fractions of train, validation and test.
        task: ``"regression"``; ``"classification"``: all targets are 0 or 1, or the only one has classes
            by name, texts or whole numbers (of more than two classes the store's task is ``"multiclass"``);
            or ``"ordinal"``: the only target has classes with an order. Default: classification if 0 and 1
            are the only known targets.
        classes: Names of the classes of the only target, in their order: other names are refused, and without
            any all but 0 and 1 are. Default those that are there, sorted; ordered classes that are not whole
            numbers have no default.
        censored: Take cells such as ``>10`` and ``<0.1`` for bounds of what was not measured beyond: networks
            learn from them, see :func:`~wlkernelnn.training.fit`; else they are an error.
        metric: Default ``"rmse"`` for regression, ``"roc_auc"`` for two classes, ``"log_loss"`` for more.
        unit: Unit of the targets, for people.
        name: Name of the set; default the file's.
        features: ``"ogb"``, ``"duvenaud"`` or ``"lei"``, with additions such as ``"ogb+rw16+morgan"``, see
            :func:`~wlkernelnn.datasets.get_features`.
        on_invalid: ``"raise"`` an error if a row gives no molecule, or leave such rows out and list them in
            ``rejects``: ``"skip"`` and ``"nan"`` differ in what is predicted for them.
        rejects_path: CSV file for the rejects, see :func:`~wlkernelnn.datasets.write_rejects`.
        max_length: Rows with longer SMILES, in characters, give no molecule, see
            :func:`~wlkernelnn.datasets.featurize`.
        num_workers: Processes that featurize, see :func:`~wlkernelnn.datasets.featurize`.
        progress: Show progress bars.
        cache: Keep the packed store in the user's cache and take it from there the next time.

    Returns:
        The molecules in the order of their rows. ``row`` holds the row of each, counted from 0; ``rejects``
        the rows that gave none.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file cannot be read, a column is missing, a target is not a number, an argument does
            not fit the others, or a row (``on_invalid="raise"``) or no row of a table gives a molecule.
    """
    check_one_of("on_invalid", on_invalid, get_args(OnInvalid))
    if split is not None and split_column is not None:
        raise ValueError("give either split or split_column, not both")
    if (split == "time") != (time_column is not None):
        raise ValueError("split='time' and time_column go together: give both, or neither")
    get_features(features)  # an unknown name is an error before anything is read
    wanted = names_of(target_columns)
    table = frame_of(source)
    frame, where = _frame(
        source if table is None else table, y, smiles_column, wanted, split_column or time_column, name
    )
    targets_of = wanted or (list(frame.columns[1:]) if y is not None else [])
    smiles_columns = smiles_columns_of([*frame.columns], smiles_column, where)
    if len(smiles_columns) > 1 and get_features(features).standardize:
        raise ValueError("standardisation keeps the largest component alone, and several columns are joined")
    cells = {column: [as_smiles(cell) for cell in frame[column].tolist()] for column in smiles_columns}
    smiles = joined_smiles(cells, max_length)
    sides = None
    if censored:
        if task not in (None, "regression"):
            raise ValueError("censored targets are numbers, of task='regression'")
        (frame, sides), task = without_bounds(frame, targets_of), "regression"
        upper, lower = (sides < 0).sum(), (sides > 0).sum()
        logger.info(f"{where}: {upper:,} upper and {lower:,} lower bounds among the targets")
    targets, task, names = _targets(frame, targets_of, task, classes, where)
    column = split_column or time_column
    require_columns([] if column is None else [column], list(frame.columns), where)
    said = None if column is None else frame[column].tolist()
    description = Description(
        name=name or (Path(source).name if isinstance(source, (str, os.PathLike)) else ""),
        features=features,
        task=task,
        metric=metric or DEFAULT_METRIC.get(task or ""),
        target_names=tuple(map(str, targets_of)),
        unit=unit,
        classes=names,
        smiles_columns=tuple(smiles_columns) if len(smiles_columns) > 1 else (),
    )

    def build() -> PackedGraphs:
        data = _pack(
            smiles,
            targets,
            sides,
            description,
            max_length=max_length,
            num_workers=num_workers,
            progress=progress,
        )
        if data.rejects and not len(data):
            return data  # nothing to be split
        if said is not None:
            rows = data.row.tolist()
            kept = [said[row] for row in rows]
            try:
                if time_column is None:
                    data.split_idx = column_split(kept, rows)
                else:
                    data.split_idx = time_split(ranks_of(kept, rows).tolist(), split_sizes)
            except ValueError as error:
                raise ValueError(f"{where}: column {column!r}: {error}") from error
        elif split is not None:
            data.split_idx = split_graphs(data, split, split_sizes)
        return data

    data = (
        cached_store(_key(smiles, targets, sides, said, split, split_sizes, max_length, description), build)
        if cache
        else build()
    )
    logger.info(f"{where}: {len(frame):,} rows in = {len(data):,} molecules + {len(data.rejects):,} rejected")
    kept = data.row.tolist()
    texts = [str(smiles[row]).strip() for row in kept]
    if get_features(features).standardize:
        logger.info(f"{where}: {counted(data.changes, len(data))}")
        texts = data.smiles
    _report_duplicates(frame, pd.Series(texts, index=kept, dtype=object), where)
    if rejects_path is not None:
        write_rejects(rejects_path, data.rejects)
    # A whole table without a molecule has another column of SMILES; no split can be made of none.
    is_list = table is None and not isinstance(source, (str, os.PathLike))
    lost = not len(data) and (split is not None or not is_list)
    if data.rejects and (on_invalid == "raise" or lost):
        advice = " (on_invalid='skip' leaves them out)" if len(data) else ""
        counts = f"{len(data.rejects):,} of {len(frame):,} rows give no molecule or have no target"
        raise ValueError(listed(f"{where}: {counts}{advice}", data.rejects, partial(place, frame)))
    return data


def names_of(columns: str | Sequence[str] | None) -> list[str]:
    """Columns of targets, given as one or several."""
    # An index of pandas or an array is neither true nor false.
    names = [] if columns is None else [columns] if isinstance(columns, str) else list(columns)
    if len(set(names)) < len(names):
        raise ValueError(f"target_columns must be different columns, got {', '.join(map(str, names))}")
    return names


def target_names(y: object, number: int) -> list[str]:
    """Different names of so many targets: as pandas calls them, or y or, of several, y1, y2, …."""
    names = [f"y{i + 1}" for i in range(number)] if number != 1 else ["y"]
    if (columns := getattr(y, "columns", None)) is not None:
        names = [str(column) for column in columns]
    elif (name := getattr(y, "name", None)) is not None:
        names = [str(name)]
    if len(set(names)) < len(names):
        raise ValueError(f"y: expected targets of different names, got {', '.join(names)}")
    return names


def _frame(
    source: str | os.PathLike[str] | pd.DataFrame | Sequence[object] | Any,
    y: ArrayLike | None,
    smiles_column: str | Sequence[str] | None,
    target_columns: list[str],
    split_column: str | None,
    name: str,
) -> tuple[pd.DataFrame, str]:
    """The table, and what to call it in messages."""
    if isinstance(source, (str, os.PathLike, pd.DataFrame)):
        if y is not None:
            raise ValueError("y goes with a list of SMILES; the targets of a table are its target_columns")
        if isinstance(source, pd.DataFrame):
            return source, name or "the data frame"
        where, schema = os.fspath(source), read_schema(source)
        smiles_columns = smiles_columns_of(schema.names, smiles_column, where)
        wanted = [*smiles_columns, *target_columns, *([split_column] if split_column else [])]
        return read_table(source, list(dict.fromkeys(wanted))), where
    if smiles_column is not None or split_column is not None:
        raise ValueError(
            "smiles_column, split_column and time_column go with a table, not with a list of SMILES"
        )
    frame = pd.DataFrame({"smiles": pd.Series(items_of(source), dtype=object)})
    if y is not None:
        values = np.asarray(y)
        values = values[:, None] if values.ndim == 1 else values
        if values.ndim != 2 or len(values) != len(frame):
            raise ValueError(f"y must be [{len(frame)}] or [{len(frame)}, T], got shape {np.shape(y)}")
        names = target_columns or target_names(y, values.shape[1])
        if "smiles" in names:
            raise ValueError("target_columns: smiles is the column of the SMILES, choose another name")
        if len(names) != values.shape[1]:
            raise ValueError(f"{len(names)} target_columns for y with {values.shape[1]} columns")
        frame[names] = values
    return frame, name or "the list of SMILES"


def _targets(
    frame: pd.DataFrame, columns: list[str], task: str | None, classes: tuple[str, ...] | None, where: str
) -> tuple[np.ndarray, str | None, tuple[str, ...]]:
    """Targets, their task, and the names of classes, if they have names."""
    if task is not None:
        check_one_of("task", task, TASKS)
    if (classes or task == "ordinal") and (task in (None, "regression") or len(columns) != 1):
        raise ValueError(
            "classes go with task='classification' or 'ordinal' and one target column, got "
            f"task={task!r} and {len(columns)} columns"
        )
    if task in ("classification", "ordinal"):
        ordered = task == "ordinal"
        binary = (
            len(columns) != 1 or classes == () or (classes is None and _are_binary(frame, columns, where))
        )
        if binary and not ordered:
            return binary_targets(frame, columns, where), task, ()
        values, names = class_targets(frame, columns[0], where, classes)
        if ordered and classes is None and not all(name.lstrip("-").isdigit() for name in names):
            raise ValueError(
                f"{where}: column {columns[0]!r}: the order of {', '.join(names)} is not known: give the "
                "names from the least to the greatest (--levels, classes=)"
            )
        counts = np.bincount(values[~np.isnan(values)].astype(int), minlength=len(names)).tolist()
        shown = ", ".join(f"{name} ({count:,})" for name, count in zip(names, counts, strict=True))
        level = logging.WARNING if classes is None and 1 in counts else logging.INFO
        logger.log(level, f"{where}: column {columns[0]!r}: {len(names)} classes (rows): {shown}")
        return values, "multiclass" if len(names) > 2 and not ordered else task, names
    values = numeric_targets(frame, columns, where)
    if task is None and columns:
        known = np.unique(values[~np.isnan(values)])
        task = "classification" if np.array_equal(known, (0, 1)) else "regression"
        logger.info(f"{where}: taken as a {task} task")
    return values, task, ()


def _are_binary(frame: pd.DataFrame, columns: list[str], where: str) -> bool:
    """Whether all known targets are 0 or 1, false or true."""
    try:
        binary_targets(frame, columns, where)
    except ValueError:
        return False
    return True


def _pack(
    smiles: list[object],
    targets: np.ndarray,
    sides: np.ndarray | None,
    description: Description,
    **options: Any,
) -> PackedGraphs:
    """Featurize the rows that have a target (all rows, where there are no targets at all)."""
    known = ~np.isnan(targets).all(axis=1) if targets.shape[1] else np.ones(len(smiles), dtype=bool)
    rows = np.flatnonzero(known).tolist()
    graphs, _ = featurize(
        [smiles[row] for row in rows],
        features=description.features,
        rows=rows,
        **options,
    )
    unknown = [
        Reject(row, as_text(smiles[row]), "no target value") for row in np.flatnonzero(~known).tolist()
    ]
    row = graphs.row.numpy()
    data = graphs.with_targets(targets[row], None if sides is None else sides[row], **description.of_set())
    data.rejects = sorted([*data.rejects, *unknown], key=lambda reject: reject.row)
    return data


def _key(
    smiles: list[object],
    targets: np.ndarray,
    sides: np.ndarray | None,
    said: list[object] | None,
    split: str | None,
    split_sizes: Sizes,
    max_length: int,
    description: Description,
) -> str:
    """Digest of all that a store depends on."""
    table = get_features(description.features)
    # Lists keep what JSON does not know apart from its text.
    content = [
        *(CACHE_VERSION, rdkit.__version__, split, *split_sizes, max_length, vars(description)),
        [(column.name, column.values) for column in (*table.atom, *table.bond)],
        [text if isinstance(text, str) else [str(text)] for text in smiles],
        None if said is None else [*map(str, said)],
        *([] if sides is None else sides.tolist()),
    ]
    return hashlib.sha256(json.dumps(content).encode() + targets.tobytes()).hexdigest()


def _report_duplicates(frame: pd.DataFrame, texts: pd.Series, where: str) -> None:
    again = texts[texts.duplicated()]
    if len(again):
        first = texts.index[texts == again.iloc[0]][0]
        logger.warning(
            f"{where}: {len(again):,} rows repeat the SMILES of an earlier row and are kept; the first is "
            f"{place(frame, again.index[0])}, like {place(frame, first)}: {again.iloc[0]}"
        )
