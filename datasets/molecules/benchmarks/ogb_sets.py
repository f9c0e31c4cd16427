"""The molecule sets of the Open Graph Benchmark (Hu et al. 2020, 2021): names, addresses, files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wlkernelnn.datasets.splits.parts import PARTS

from . import pcqm4mv2

# OGB's layout of a set's folder
SPLIT = "split/scaffold"
LABELS = "raw/graph-label.csv.gz"
NUM_NODES = "raw/num-node-list.csv.gz"
GRAPHS = (
    *(f"raw/{name}.csv.gz" for name in ("node-feat", "edge", "edge-feat")),
    NUM_NODES,
    "raw/num-edge-list.csv.gz",
)
FILES = (*GRAPHS, LABELS, *(f"{SPLIT}/{part}.csv.gz" for part in PARTS), "mapping/mol.csv.gz")


@dataclass(frozen=True)
class OGBSet:
    """A published data set of OGB.

    Attributes:
        name: Name for :func:`~wlkernelnn.datasets.load_ogb`.
        folder: Folder of its files.
        url: Address of the publisher's zip file; no checksum of it is known.
        inside: The folder in the zip file.
        size: Number of graphs.
        metric: Metric of OGB's leaderboard.
        num_tasks: Number of targets.
        unit: Unit of the targets.
        table: The published table of molecules whose rows are the set's graphs, if there is one.
        files: All that is read of the folder.
    """

    name: str
    folder: str
    url: str
    inside: str
    size: int
    metric: str
    num_tasks: int = 1
    unit: str = ""
    table: str = ""
    files: tuple[str, ...] = FILES

    @property
    def task(self) -> str:
        """``"regression"`` or ``"classification"``."""
        return "regression" if self.metric in ("rmse", "mae") else "classification"


def _molecules(name: str, inside: str, size: int, metric: str, **more: Any) -> OGBSet:
    url = f"http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/{inside}.zip"
    return OGBSet(f"ogbg-{name}", f"ogbg_{name}", url, inside, size, metric, **more)


_SETS = (
    _molecules("molhiv", "hiv", 41_127, "roc_auc", unit="inhibits HIV replication", table="hiv"),
    _molecules("molpcba", "pcba", 437_929, "average_precision", num_tasks=128),
    _molecules("molesol", "esol", 1_128, "rmse", unit="log10(mol/L)"),
    _molecules("molfreesolv", "freesolv", 642, "rmse", unit="kcal/mol"),
    _molecules("mollipo", "lipophilicity", 4_200, "rmse", unit="log D at pH 7.4"),
    _molecules("molbbbp", "bbbp", 2_039, "roc_auc", unit="crosses the blood-brain barrier"),
    _molecules("molbace", "bace", 1_513, "roc_auc", unit="inhibits human beta-secretase 1"),
    _molecules("molclintox", "clintox", 1_477, "roc_auc", num_tasks=2),
    _molecules("molsider", "sider", 1_427, "roc_auc", num_tasks=27),
    _molecules("moltox21", "tox21", 7_831, "roc_auc", num_tasks=12),
    _molecules("moltoxcast", "toxcast", 8_576, "roc_auc", num_tasks=617),
    _molecules("molmuv", "muv", 93_087, "average_precision", num_tasks=17),
    OGBSet(
        name="pcqm4mv2",
        folder="pcqm4m-v2",
        url="https://dgl-data.s3-accelerate.amazonaws.com/dataset/OGB-LSC/pcqm4m-v2.zip",
        inside="pcqm4m-v2",
        size=3_746_620,
        metric="mae",
        unit="eV",
        files=pcqm4mv2.FILES,
    ),
)

#: The data sets that :func:`~wlkernelnn.datasets.load_ogb` knows, by name.
OGB_SETS: dict[str, OGBSet] = {spec.name: spec for spec in _SETS}


def ogb_set(name: str) -> OGBSet:
    """The set of that name, however it is spelt."""
    key = name.lower().replace("_", "-")
    if key not in OGB_SETS:
        raise ValueError(f"name must be one of {', '.join(OGB_SETS)}, got {name!r}")
    return OGB_SETS[key]
