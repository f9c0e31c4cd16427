"""The data a verb reads: which file, which columns, how it is split; and scores as they are printed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from .options import PositiveInt

if TYPE_CHECKING:
    import numpy as np

    from wlkernelnn.datasets import PackedGraphs


@dataclass
class DataOptions:
    """Where molecules and targets come from.

    Args:
        data_path: A table (CSV, TSV, Parquet, SDF, a .smi file of SMILES and names, or the first sheet of an
            Excel workbook), or the name of a published data set: chembl2321810, esol, freesolv,
            lipophilicity, cep, bbbp, bace, clintox, sider, tox21, hiv, qm7, qm8, organic_ri, one of
            MoleculeACE's, such as moleculeace/CHEMBL204_Ki, of TDC's ADMET group (tdc/caco2_wang, with the
            package PyTDC; tdc/caco2_wang/2 with the validation part of TDC's seed 2), or the training part of
            a benchmark of Polaris (polaris/OWNER/NAME, with polaris-lib).
        smiles_columns: The column of SMILES; by default the one called smiles, or those that a run was
            trained on with --join-smiles, which takes several.
        join_smiles: Join several columns of SMILES, such as a drug and its solvent, into one molecule of
            several components, drug.solvent: one graph that is not connected, in which nothing says which
            component is which. The model remembers the columns.
        target_columns: Columns of targets; blank cells are missing values. Needed for a file.
        task_type: What the targets are; by default classification if they are 0 and 1. "classification" also
            takes one column of two classes or more by name, texts or whole numbers. "ordinal" is one column
            of classes that have an order, which networks alone learn.
        levels: Names of ordered classes, from the least to the greatest; by default whole numbers, sorted.
        censored: Cells such as >10 and <0.1 are bounds of what was not measured; else they are an error.
            In training, networks learn from them: a prediction costs something on the wrong side of a bound.
            Scores are of measured values.
        features: Atom and bond features, by default those that the model needs: of a kernel machine, alone
            or with a network, "ogb+invariants+descriptors" (more may be added), of others any, by default
            "ogb". There are "ogb" (9 atom and 3 bond columns of the Open Graph Benchmark;
            the one of chirality depends on the order in which a SMILES names atoms), "duvenaud" (the
            neural fingerprint's, used in the paper, without chirality) or "lei" (those of the paper's
            release, without it too). More can be added, in this order: "+invariants" (what ECFP and FCFP
            tell atoms apart by, for kernels), "+rings" tells
            each atom in how many rings of each size it lies, "+ring_nodes" gives each ring a node that is
            joined to its atoms, "+rw16" tells how likely a walk along random bonds
            is back at it after 1, 2, ... 16 steps (any number from 1 to 64), and one of "+morgan", which has
            each molecule's Morgan fingerprint (radius 2, like ECFP4, 2048 counts), "+descriptors", those of
            kernel machines, and "+rdkit", RDKit's, as in "ogb+rings+rw16+rdkit".
        standardize: Standardize molecules before: RDKit's cleanup, then the largest fragment alone (an
            organic one if there is any), then no charges where hydrogens can take them. A run folder lists
            what changed in standardized.csv; its model does the same to all that it predicts for.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        on_invalid: What to do with rows that give no molecule or have no target: "raise" an error (the
            default for a file), or "skip" them (the default for a published data set). "nan" is "skip"
            here; in predictions it keeps the row.
        max_length: Longer SMILES, in characters, give no molecule: the time they take grows with the square
            or cube of their length.
        num_workers: Processes that read molecules; by default all cores where it pays.
        cache: Keep the molecules, packed with their SMILES and targets, in the user's cache, for the next
            time ("wlkernelnn cache" shows it).
    """

    data_path: str
    smiles_columns: list[str] | None = None
    target_columns: list[str] | None = None
    task_type: Literal["regression", "classification", "ordinal"] | None = None
    levels: list[str] | None = None
    censored: bool = False
    features: str | None = None
    standardize: bool = False
    root: str | None = None
    on_invalid: Literal["raise", "skip", "nan"] | None = None
    max_length: PositiveInt = 5000
    num_workers: int | None = None
    cache: bool = True
    join_smiles: bool = False

    def __post_init__(self) -> None:
        if self.num_workers is not None and self.num_workers < 0:
            raise ValueError(f"--num-workers: expected at least 0, got {self.num_workers}")
        if self.levels is not None:
            if self.task_type != "ordinal":
                raise ValueError(f"--levels is an option of --task-type ordinal, got {self.task_type}")
            if len(self.levels) < 2 or len({*self.levels}) < len(self.levels):
                raise ValueError(
                    f"--levels: expected at least two different names, got {' '.join(self.levels)}"
                )
        if self.join_smiles and len(self.smiles_columns or ()) < 2:
            raise ValueError("--join-smiles joins several columns: name them by --smiles-columns")
        if self.join_smiles and self.standardize:
            raise ValueError("--standardize keeps the largest component alone: not with --join-smiles")

    def load(self, rejects_path: Path | None = None, **more: Any) -> PackedGraphs:
        """Read the molecules; the rows that gave none go to ``rejects_path``; a column may say the split."""
        from wlkernelnn.datasets import load_molecules
        from wlkernelnn.datasets.files.table_chunks import is_table

        if is_table(self.data_path) and not self.target_columns:
            raise ValueError(f"--target-columns: which columns of {self.data_path} are the targets?")
        given = {
            "smiles_column": self.smiles_columns if self.join_smiles else one_column(self.smiles_columns),
            "target_columns": self.target_columns,
            "task": self.task_type,
            "classes": None if self.levels is None else tuple(self.levels),
            "censored": self.censored or None,
            "on_invalid": self.on_invalid,
            "rejects_path": rejects_path,
            "max_length": self.max_length,
            "num_workers": self.num_workers,
            "cache": self.cache,
        }
        options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        features = self.features or "ogb"
        if self.standardize and not features.endswith("+standardize"):
            features += "+standardize"
        return load_molecules(self.data_path, self.root, features=features, progress=True, **options, **more)


@dataclass
class RandomSplitOptions:
    """A random split, or that of a column.

    Args:
        splits_column: Column that says train, valid (or val) or test of each row, in the place of a split.
        split_sizes: Fractions of train, valid and test.
        data_seed: Seed of a random split.
    """

    splits_column: str | None = None
    split_sizes: tuple[float, float, float] = (0.8, 0.1, 0.1)
    data_seed: int = 0

    def __post_init__(self) -> None:
        from wlkernelnn.datasets.splits.parts import check_sizes

        check_sizes(self.split_sizes, "--split-sizes")
        if self.data_seed < 0:
            raise ValueError(f"--data-seed: expected at least 0, got {self.data_seed}")
        if self.splits_column is not None:
            given = {
                "--split": getattr(self, "split", None) is not None,
                "--split-sizes": tuple(self.split_sizes) != RandomSplitOptions.split_sizes,
                "--data-seed": self.data_seed != RandomSplitOptions.data_seed,
            }
            for name in (name for name, there in given.items() if there):
                raise ValueError(f"give either {name} or --splits-column, not both")


@dataclass
class SplitOptions(RandomSplitOptions):
    """How the molecules are split.

    Args:
        split: "random" (rows of the same molecule stay together), "scaffold" (by Bemis-Murcko scaffold with
            chirality, OGB's recipe), "flat_scaffold" (without, so that stereoisomers stay together,
            DeepChem's), "butina" (by clusters of molecules that are similar to their centre) or "time" (by
            --time-column: oldest train, newest test); by default the published one of a data set that has it,
            the one recommended for other published sets, random for a file.
        time_column: Column of numbers, such as years, or of dates such as 2020-01-31.
        cluster_similarity: Of --split butina: Tanimoto similarity of Morgan fingerprints (radius 2) to the
            centre of a cluster, at least, by default 0.4; more makes smaller clusters.
    """

    split: Literal["random", "scaffold", "flat_scaffold", "butina", "time"] | None = None
    time_column: str | None = None
    cluster_similarity: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.split == "time") != (self.time_column is not None):
            raise ValueError("--split time and --time-column go together: give both, or neither")
        if self.cluster_similarity is not None:
            if self.split != "butina":
                raise ValueError("--cluster-similarity is an option of --split butina")
            if not 0 < self.cluster_similarity <= 1:
                given = f"{self.cluster_similarity:g}"
                raise ValueError(
                    f"--cluster-similarity: expected a number above 0 and at most 1, got {given}"
                )

    def check_seed(self) -> None:
        """Refuse a seed where nothing is drawn: not of folds, which are dealt out by it."""
        if self.split not in (None, "random") and self.data_seed:
            raise ValueError(f"--data-seed is an option of --split random: there is one {self.split} split")

    def of_clusters(self) -> dict[str, float]:
        """What splits by clusters have to know, if it is given."""
        return {} if self.cluster_similarity is None else {"similarity": self.cluster_similarity}

    def of_table(self) -> dict[str, Any]:
        """What reading the table has to know of a split that a column says."""
        if self.split == "time":
            return {"split": "time", "time_column": self.time_column, "split_sizes": self.split_sizes}
        return {} if self.splits_column is None else {"split_column": self.splits_column}

    def published(self, data: PackedGraphs) -> dict[str, np.ndarray] | None:
        """The split that was published with the data, if there is one and ``--split`` names no other."""
        from wlkernelnn.datasets import MOLECULE_SETS

        known = MOLECULE_SETS.get(data.description.name)
        own = self.split is None and (known is None or known.split_column is not None)
        return data.split_idx if own else None

    def apply(self, data: PackedGraphs) -> tuple[dict[str, np.ndarray], str]:
        """Positions of each part in ``data``, and what to call the split."""
        if self.splits_column is not None:
            assert data.split_idx is not None  # made from the column
            return data.split_idx, f"column {self.splits_column}"
        if self.split == "time":
            assert data.split_idx is not None  # made from the column
            return data.split_idx, f"time, column {self.time_column}"
        from wlkernelnn.datasets import MOLECULE_SETS, split

        if (published := self.published(data)) is not None:
            if tuple(self.split_sizes) != SplitOptions.split_sizes or self.data_seed:
                name = data.description.name
                raise ValueError(
                    f"{name} has a published split: --split-sizes and --data-seed need --split random"
                )
            return published, "published"
        known = MOLECULE_SETS.get(data.description.name)
        kind = self.split or (known.split if known else "random")
        if kind != "random" and self.data_seed:
            raise ValueError(f"--data-seed is an option of --split random: there is one {kind} split")
        train, valid, test = self.split_sizes
        name = kind if self.cluster_similarity is None else f"{kind}, similarity {self.cluster_similarity:g}"
        return split(data, kind, (train, valid, test), self.data_seed, **self.of_clusters()), name


def one_column(columns: list[str] | None, option: str = "--smiles-columns") -> str | None:
    """The column of an option that takes several, as chemprop's do; ours are about one a row."""
    if columns is None:
        return None
    if len(columns) != 1:
        join = "; --join-smiles joins them" if option == "--smiles-columns" else ""
        raise ValueError(f"{option}: expected one column, got {len(columns)}: {', '.join(columns)}{join}")
    return columns[0]


def score_text(score: float) -> str:
    """Four digits behind the point, or, of errors as small as targets in mol/L can have, four that count."""
    return f"{score:.4g}" if 0 < abs(score) < 1e-3 else f"{score:.4f}"
