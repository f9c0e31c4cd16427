"""The published molecule data sets: what they hold, and where their files come from.

MoleculeNet is Wu et al. 2018 (Chemical Science 9, 513); tasks, metrics and recommended splits of its sets are
the paper's, except that QM7 is split at random instead of stratified. The checksums of Lipophilicity.csv and
bace.csv are those that several public projects recorded; the others were computed from the files. Where there
are two, the second is of the file with Unix line ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wlkernelnn.datasets.graphs.splits import SplitKind
from wlkernelnn.utils.files import read_json


@dataclass(frozen=True)
class MoleculeSet:
    """A published data set: what it holds and where its file comes from.

    Attributes:
        name: Name for :func:`~wlkernelnn.datasets.load_molecules`.
        file: Where the file lies in a folder of data sets; its bare name and ``.gz`` will do as well.
        size: Rows in the file.
        smiles_column, target_columns: Columns of the file that are read.
        metric: The metric its results are given in.
        unit: Unit of the targets.
        split: The split recommended for it (80/10/10, seed 0), which ``split_idx`` holds.
        source: Where the data come from.
        licence: What that source says about their use.
        url: Address of the file, ``""`` where there is none that can be checked.
        sha256: SHA-256 of the known versions of the file (decompressed).
    """

    name: str
    file: str
    size: int
    target_columns: tuple[str, ...]
    metric: str
    unit: str
    source: str
    licence: str = "none stated"
    smiles_column: str = "smiles"
    split: SplitKind = "random"
    url: str = ""
    sha256: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """``"regression"`` or ``"classification"``."""
        return "classification" if self.metric == "roc_auc" else "regression"


def _from_json(name: str, spec: dict[str, Any]) -> MoleculeSet:
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in spec.items()}
    return MoleculeSet(name, **values)


#: The data sets that :func:`~wlkernelnn.datasets.load_molecules` knows, by name.
MOLECULE_SETS: dict[str, MoleculeSet] = {
    name: _from_json(name, spec)
    for name, spec in read_json(Path(__file__).with_name("published.json")).items()
}
