"""Several columns of SMILES as one molecule of several components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pandas as pd
from rdkit import Chem, rdBase

from wlkernelnn.datasets.chemistry.perception import FIXED

from .rejects import Unreadable, as_text, is_missing
from .table import smiles_column_of
from .table_chunks import require_columns


def smiles_columns_of(columns: Sequence[object], name: str | Sequence[str] | None, where: str) -> list[str]:
    """The columns of SMILES: those given, or one as :func:`smiles_column_of` finds it.

    Raises:
        ValueError: A column is missing or there twice; or as :func:`smiles_column_of`.
    """
    if name is None or isinstance(name, str):
        return [smiles_column_of(pd.DataFrame(columns=[*columns]), name, where)]
    if not name or len({*name}) < len(name):
        raise ValueError(f"smiles_column must be different columns, got {', '.join(name) or 'none'}")
    try:
        require_columns(name, columns, where)
    except ValueError as error:
        joined = f"; SMILES are joined from the columns {', '.join(name)}" if len(name) > 1 else ""
        raise ValueError(f"{error}{joined}") from None
    return [*name]


def joined_smiles(columns: Mapping[str, Sequence[object]], max_length: int) -> list[object]:
    """The SMILES of each row, with a dot between those of its columns; of one column its cells as they are.

    A component must be a molecule by itself: an open ring of one would close in another. A row with one that
    is not has an :class:`Unreadable` instead, whose reason names the column.

    Args:
        columns: The cells of each column, by its name, ``[n]`` each.
        max_length: Longer SMILES are not read here.
    """
    if len(columns) == 1:
        return [*next(iter(columns.values()))]
    return [
        _joined(dict(zip(columns, cells, strict=True)), max_length)
        for cells in zip(*columns.values(), strict=True)
    ]


def _joined(cells: Mapping[str, object], max_length: int) -> object:
    text = ".".join("" if is_missing(cell) else str(as_text(cell)).strip() for cell in cells.values())
    if len(text) > max_length:
        return text
    for name, cell in cells.items():
        if reason := _defect(cell):
            return Unreadable(text, f"column {name!r}: {reason}")
    return text


def _defect(cell: object) -> str:
    """Why a cell is not a component, or ``""`` if it is one."""
    if isinstance(cell, Unreadable):
        return cell.reason
    if is_missing(cell):
        return "missing"
    if not isinstance(cell, str):
        return f"not a string but {type(cell).__name__}"
    return _complaint(cell.strip())


@lru_cache(maxsize=100_000)
def _complaint(text: str) -> str:
    """What RDKit says of a SMILES that it does not read; solvents and the like are read once."""
    if len(text.split()) != 1 or not text.isascii():
        return "text after the SMILES, or a sign that does not belong in one" if text else "blank"
    with FIXED, rdBase.CaptureErrorLog() as log:
        molecule = Chem.MolFromSmiles(text)
    if molecule is not None:
        return "" if molecule.GetNumAtoms() else "no atoms"
    said = [line.partition("] ")[2] or line for line in log.messages.splitlines() if line.strip(" *~^")]
    return said[0].strip()[:200] if said else "RDKit does not read it"
