"""The files of PCQM4Mv2 (Hu et al. 2021): a table of SMILES and HOMO-LUMO gaps, and a pickled split."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from wlkernelnn.datasets.files.table import read_table
from wlkernelnn.datasets.files.targets import numeric_targets

FILES = ("raw/data.csv.gz", "split_dict.pt")
TARGETS = ("homolumogap",)
PARTS = ("train", "valid", "test-dev", "test-challenge")

# What an array of integers is pickled with: the function that numpy makes arrays by (under the names that it
# has in numpy 1 and 2), and three types. None of them runs anything that a file brings along.
_make_array = np.empty(0).__reduce__()[0]
_ARRAYS: list[Any] = [
    *((_make_array, f"numpy.{core}.multiarray._reconstruct") for core in ("core", "_core")),
    *(np.ndarray, np.dtype, np.dtypes.Int64DType),
]


def read_molecules(folder: Path) -> tuple[list[str], tuple[str, ...], np.ndarray]:
    """SMILES of all molecules, the target's name, and gaps ``[G, 1]``; those of the test parts are NaN."""
    path = folder / FILES[0]
    table = read_table(path, ["smiles", *TARGETS])
    return table["smiles"].tolist(), TARGETS, numeric_targets(table, TARGETS, path)


def read_split(folder: Path) -> dict[str, np.ndarray]:
    """OGB's numbers of the molecules of each part, from ``split_dict.pt``.

    The file is a pickle: only integers in arrays and dictionaries are read, all else is a ``ValueError``.
    """
    path = folder / FILES[1]
    expected = f"a dictionary of integer arrays called {', '.join(PARTS)}"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with torch.serialization.safe_globals(_ARRAYS):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise ValueError(f"{path}: expected {expected}, got something else, or a damaged file") from error
    if not isinstance(content, dict) or set(content) != set(PARTS):
        found = ", ".join(map(repr, content)) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{path}: expected {expected}, got {found}")
    parts = {part: np.asarray(content[part]) for part in PARTS}
    for part, numbers in parts.items():
        if numbers.ndim != 1 or numbers.dtype != np.int64:
            raise ValueError(f"{path}: expected {expected}; {part} is {numbers.dtype} {numbers.shape}")
    return parts
