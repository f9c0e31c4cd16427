"""Which column of a table holds the SMILES."""

from __future__ import annotations

import pandas as pd
from rdkit import Chem, rdBase

from .table_chunks import require_columns, separator


def smiles_column_of(frame: pd.DataFrame, name: str | None, where: str) -> str:
    """The column of SMILES: the one given, else the one called smiles, in any case, else the only one."""
    available = list(frame.columns)
    if name is None:
        named = [column for column in available if str(column).lower() == "smiles"]
        if len(named) > 1 and "smiles" not in named:
            raise ValueError(f"{where}: columns {', '.join(named)}: say which one holds the SMILES")
        name = named[0] if len(named) == 1 else "smiles"
        if not named and len(available) == 1:
            name = available[0]
            _check_header(str(name), where)
    require_columns([name], available, where)
    return name


def _check_header(name: str, where: str) -> None:
    """Refuse the only column of a table if its name says that the table was misread."""
    for sign in (";", "\t" if separator(where) == "," else ",", "|"):
        if sign in name:
            raise ValueError(
                f"{where}: the only column is called {name!r}: is {sign!r} its separator? Expected ',' "
                "(in files called .tsv tabs)"
            )
    with rdBase.BlockLogs():
        molecule = Chem.MolFromSmiles(name)
    if molecule is not None and molecule.GetNumAtoms():
        raise ValueError(
            f"{where}: the only column is called {name!r}, which is a SMILES: expected a first line with the "
            "names of the columns"
        )
