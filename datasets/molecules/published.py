"""The published molecule data sets: what they hold, and where their files come from.

MoleculeNet is Wu et al. 2018 (Chemical Science 9, 513); tasks, metrics and recommended splits of its sets are
the paper's, except that QM7 is split at random instead of stratified. The checksums of Lipophilicity.csv and
bace.csv are those that several public projects recorded; the others were computed from the files. Where there
are two, the second is of the file with Unix line ends.

MoleculeACE is van Tilborg et al. 2022 (Journal of Chemical Information and Modeling 62, 5938): 30 sets of
activities from ChEMBL with published splits, whose column ``cliff_mol`` marks activity cliffs: molecules that
are much like another one whose activity is at least ten times as high or as low.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wlkernelnn.datasets.splits.by_kind import SplitKind
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
        split_column: The column of the split that was published with it, in whose place ``split_idx`` holds
            this one.
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
    split_column: str | None = None
    url: str = ""
    sha256: tuple[str, ...] = ()

    @property
    def task(self) -> str:
        """``"regression"`` or ``"classification"``."""
        return "classification" if self.metric == "roc_auc" else "regression"


def _from_json(name: str, spec: dict[str, Any]) -> MoleculeSet:
    values: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in spec.items()}
    return MoleculeSet(name, **values)


def _of_moleculeace(name: str, spec: dict[str, Any]) -> MoleculeSet:
    """Activities on one receptor or enzyme, with the split that van Tilborg et al. published."""
    measure = name.rpartition("_")[2]
    shared: dict[str, Any] = {
        "file": f"moleculeace/{name}.csv",
        "target_columns": ["y"],
        "split_column": "split",
        "metric": "rmse",
        "unit": f"-log10({measure} in nM)",
        "source": "the source distribution of MoleculeACE 3.0.0 on PyPI (molML/MoleculeACE on GitHub), in it "
        f"MoleculeACE/Data/benchmark_data/{name}.csv",
        "licence": "MIT",
    }
    return _from_json(f"moleculeace/{name}", shared | spec)


_HERE = Path(__file__)
#: The data sets that :func:`~wlkernelnn.datasets.load_molecules` knows, by name.
MOLECULE_SETS: dict[str, MoleculeSet] = {
    name: _from_json(name, spec) for name, spec in read_json(_HERE.with_name("published.json")).items()
} | {
    f"moleculeace/{name}": _of_moleculeace(name, spec)
    for name, spec in read_json(_HERE.with_name("moleculeace.json")).items()
}
