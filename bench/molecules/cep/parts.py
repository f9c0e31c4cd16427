"""The molecules of Lei et al. 2017 in the form of their release: a text file for each part."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from wlkernelnn.datasets.graphs.splits import PARTS


def read_parts(paths: Sequence[Path]) -> pd.DataFrame:
    """Read files whose first line is a header, and each other line a SMILES and its PCE in %.

    Args:
        paths: Files of the training, validation and test part.

    Returns:
        Columns ``smiles``, ``PCE`` and ``split``, rows in the order of the files.

    Raises:
        FileNotFoundError: A file is not there.
        ValueError: There are not three files, or a line is something else.
    """
    if len(paths) != len(PARTS):
        raise ValueError(f"expected a file for each of {', '.join(PARTS)}, got {len(paths)}")
    frames = [_read(path).assign(split=part) for path, part in zip(paths, PARTS, strict=True)]
    return pd.concat(frames, ignore_index=True)


def _read(path: Path) -> pd.DataFrame:
    try:
        # One column more than there should be: what stands in it is told. "NA" is a SMILES' beginning.
        lines = pd.read_csv(
            path,
            sep=r"\s+",
            header=None,
            names=["smiles", "PCE", "more"],
            skiprows=1,
            dtype=str,
            na_filter=False,
            quoting=csv.QUOTE_NONE,
            skip_blank_lines=False,
        )
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: expected lines of a SMILES and its PCE ({error})") from error
    if lines.empty:
        raise ValueError(f"{path}: expected a header and lines of a SMILES and its PCE, got nothing")
    value = pd.to_numeric(lines["PCE"], errors="coerce")
    wrong = np.flatnonzero(~np.isfinite(value) | (lines["more"].fillna("") != ""))
    if wrong.size:
        row = lines.iloc[wrong[0]]
        came = " ".join(str(field) for field in row if field == field and field)
        raise ValueError(f"{path}: line {wrong[0] + 2}: expected a SMILES and its PCE, got {came!r}")
    return pd.DataFrame({"smiles": lines["smiles"], "PCE": value})
