"""Published sets of molecules by their names: found on disk, fetched, or taken from rdkit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import rdkit
from rdkit import RDConfig

from wlkernelnn.datasets.files.download import require_file
from wlkernelnn.datasets.files.table import read_table
from wlkernelnn.datasets.files.table_chunks import SUFFIXES, close_name, is_table
from wlkernelnn.datasets.graphs.packed import PackedGraphs

from .clients import table_of_client
from .from_table import molecules_from, names_of
from .published import MOLECULE_SETS, MoleculeSet


def load_molecules(
    source: str | os.PathLike[str] | pd.DataFrame | Sequence[object] | Any,
    root: str | os.PathLike[str] | None = None,
    **options: Any,
) -> PackedGraphs:
    """Load a published data set by its name, or any table or list of molecules.

    A published set (one of :data:`~wlkernelnn.datasets.MOLECULE_SETS`) is looked for in ``root`` (default
    ``$WLKERNELNN_DATA``), then in the user's cache; if it is in neither, it is fetched from its publisher
    into the cache and its SHA-256 is checked. ``"chembl2321810"`` (or ``"chembl"``) comes with rdkit.
    ``"tdc/NAME"`` is a set of TDC's ADMET group, with the validation part of TDC's seed 1 (``"tdc/NAME/2"``:
    of seed 2), and ``"polaris/OWNER/NAME"`` the training part of a benchmark of Polaris, where the packages
    PyTDC and polaris-lib are installed: these read or fetch them.

    Args:
        source: A name, or whatever :func:`~wlkernelnn.datasets.molecules_from` takes.
        root: Folder with published data sets.
        options: Passed on to :func:`~wlkernelnn.datasets.molecules_from`. A published set brings its own
            columns, task, metric and split, and leaves invalid rows out (``on_invalid="skip"``), unless told
            otherwise here.

    Returns:
        The molecules; of a published set with ``split_idx``, the split in its file or the recommended one
        (80/10/10, seed 0).

    Raises:
        FileNotFoundError: The file is nowhere and cannot be fetched: says which file to put where.
        ImportError: The set needs a package that is not installed.
        ValueError: Unknown name, or one of the reasons of :func:`~wlkernelnn.datasets.molecules_from`.
    """
    if not isinstance(source, str) or is_table(source):
        if root is not None:
            raise ValueError(
                "root goes with the name of a published data set; give a table by its whole path, targets of "
                "SMILES as y=…"
            )
        return molecules_from(source, **options)
    if (found := table_of_client(source, root)) is not None:
        frame, own = found
        if "split" in options:
            del own["split_column"]
        return molecules_from(frame, **{**own, "on_invalid": "skip", **options})
    spec = _published(source)
    if spec.name == "chembl2321810":
        table: Path | pd.DataFrame = _chembl(spec)
    else:
        progress = options.get("progress", False)
        table = require_file(spec.file, root, spec.source, spec.url, spec.sha256, progress)
    own = {
        "smiles_column": spec.smiles_column,
        "target_columns": spec.target_columns,
        "name": spec.name,
        "on_invalid": "skip",
    }
    if not {"split", "split_column"} & options.keys():
        own |= {"split_column": spec.split_column} if spec.split_column else {"split": spec.split}
    if set(names_of(options.get("target_columns", spec.target_columns))) <= set(spec.target_columns):
        own |= {"task": spec.task, "unit": spec.unit}
        if options.get("task", spec.task) == spec.task:
            own["metric"] = spec.metric
    return molecules_from(table, **{**own, **options})


def _published(name: str) -> MoleculeSet:
    known = {key.lower(): spec for key, spec in MOLECULE_SETS.items()}
    key = {"chembl": "chembl2321810"}.get(name.lower(), name.lower())
    if key not in known:
        single = [key for key in MOLECULE_SETS if "/" not in key]
        raise ValueError(
            f"no data set is called {name!r}{close_name(name, MOLECULE_SETS) or '.'} Known are "
            f"{', '.join(single)}, and {len(known) - len(single)} sets such as moleculeace/CHEMBL204_Ki, "
            "sets of clients such as tdc/caco2_wang or polaris/OWNER/NAME; "
            f"a table needs a name that ends in {', '.join(SUFFIXES)}"
        )
    return known[key]


def _chembl(spec: MoleculeSet) -> pd.DataFrame:
    """The data set inside rdkit: SMILES and activities in two files, joined by name."""
    smiles_path = Path(RDConfig.RDContribDir, "FreeWilson", "data", spec.file)
    activity_path = smiles_path.with_name("CHEMBL2321810_act.csv")
    if not smiles_path.is_file():
        raise FileNotFoundError(
            f"{smiles_path}: this rdkit ({rdkit.__version__}) comes without its Contrib folder; "
            "install rdkit from PyPI (pip install rdkit)"
        )
    frame = pd.read_csv(smiles_path, sep=" ", names=[spec.smiles_column, "Name"], dtype=str)
    return frame.merge(read_table(activity_path), on="Name", how="left", validate="one_to_one")
