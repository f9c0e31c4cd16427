"""Molecules of the Open Graph Benchmark (Hu et al. 2020, 2021): OGB's files and splits, as packed graphs."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import rdkit

from wlkernelnn.datasets.files.download import data_folders, fetch_folder, warn_unlike_published
from wlkernelnn.datasets.files.number_rows import read_integers
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.graphs.store_cache import cached_store
from wlkernelnn.datasets.molecules.features import get_features
from wlkernelnn.datasets.molecules.load import load_molecules
from wlkernelnn.datasets.molecules.ring_nodes import num_atoms
from wlkernelnn.datasets.molecules.smiles import described, featurize
from wlkernelnn.datasets.splits.parts import SplitIndex

from . import pcqm4mv2
from .ogb_files import read_graphs, read_labels, read_mapping, read_parts
from .ogb_sets import GRAPHS, LABELS, NUM_NODES, SPLIT, OGBSet, ogb_set

logger = logging.getLogger("wlkernelnn")

# Part of the name of a cached store: raise it when the same files give another store than before.
CACHE_VERSION = 1


def load_ogb(
    name: str,
    root: str | os.PathLike[str] | None = None,
    *,
    features: str = "ogb",
    num_workers: int | None = None,
    progress: bool = False,
    cache: bool = True,
) -> PackedGraphs:
    """Load a molecule set of the Open Graph Benchmark with its official split.

    The set's folder, such as ``ogbg_molhiv``, in the layout of OGB's own downloads, is looked for in ``root``
    (default ``$WLKERNELNN_DATA``) and in its folder ``ogb``, then in the user's cache. If it is nowhere, the
    zip file is fetched from its publisher into the cache; no checksum of it is known.

    ogbg-molhiv can also be made from a split beside a table of SMILES: where ``ogbg_molhiv`` holds no graphs
    but only ``split/scaffold``, they come from MoleculeNet's table (see
    :func:`~wlkernelnn.datasets.load_molecules`), whose rows are OGB's graphs. RDKit refuses 7 of its 41,127
    SMILES, all of the training part: they are missing, which is logged, and listed in ``rejects``.

    Args:
        name: Name of the set: one of :data:`~wlkernelnn.datasets.OGB_SETS`, such as ``"ogbg-molhiv"`` or
            ``"pcqm4mv2"``.
        root: Folder with published data sets.
        features: ``"ogb"``, which are those of the files, or others (see
            :func:`~wlkernelnn.datasets.get_features`), which are computed from the SMILES.
        num_workers: Processes that featurize SMILES, where that is to be done.
        progress: Show progress bars.
        cache: Keep the packed store in the user's cache, under a name made from the files' content, and take
            it from there the next time.

    Returns:
        The graphs in OGB's order. ``split_idx`` holds the official split: positions in the store, in the
        order of OGB's files. ``row`` is OGB's number of a graph, and ``metric`` the leaderboard's. The codes
        of the files are those of the features ``"ogb"``: what is trained on them predicts for any SMILES.

        PCQM4Mv2 has the parts ``"train"``, ``"valid"``, ``"test-dev"`` and ``"test-challenge"``; the targets
        of the last two are NaN.

    Raises:
        FileNotFoundError: The files are nowhere and cannot be fetched: says what to put where.
        ValueError: Unknown name, or a file is not as the format says: names file and line.
    """
    spec = ogb_set(name)
    get_features(features)  # an unknown name is an error before anything is read
    folder, beside = _places(spec, root)
    if beside is not None:
        options = {"features": features, "num_workers": num_workers, "progress": progress, "cache": cache}
        data = load_molecules(spec.table, root, split=None, name=spec.name, **options)
        data.split_idx = _split(data, read_parts(beside), beside / SPLIT)
        return _checked(data, spec, beside)
    found = folder or fetch_folder(
        spec.name, spec.url, f"ogb/{spec.folder}", spec.inside, spec.files[0], root, progress
    )

    def build() -> PackedGraphs:
        return _read(found, spec, features, num_workers, progress)

    key = _key(spec, features, found)
    return _checked(cached_store(key, build) if cache else build(), spec, found)


def ogb_source(name: str, root: str | os.PathLike[str] | None = None, *, features: str = "ogb") -> str:
    """Where the graphs of :func:`load_ogb` come from, once they are there, in words."""
    spec = ogb_set(name)
    if _places(spec, root)[1] is not None:
        # Only OGB's whole archive says what its split is.
        return (
            f"graphs made from SMILES, those of MoleculeNet's table {spec.table!r}; the split is that of the "
            "files there, which OGB's archive did not come with"
        )
    if features == "ogb" and spec.files[0] in GRAPHS:
        return "OGB's own graphs"
    return "graphs made from SMILES, those of OGB"


def ogb_parts(name: str, root: str | os.PathLike[str] | None = None) -> dict[str, np.ndarray]:
    """OGB's numbers of the graphs of each part, those that :func:`load_ogb` cannot make included."""
    spec = ogb_set(name)
    folder, beside = _places(spec, root)
    if spec.name == "pcqm4mv2" and folder is not None:
        return pcqm4mv2.read_split(folder)
    if (found := folder or beside) is None:
        raise FileNotFoundError(f"{spec.name}: there is no ogb/{spec.folder} with {spec.files[0]}")
    return read_parts(found)


def _key(spec: OGBSet, features: str, folder: Path) -> str:
    """Digest of all that a store depends on."""
    table = get_features(features)
    columns = [(column.name, column.values) for column in (*table.atom, *table.bond)]
    meaning = (table.name, columns, table.num_node_values, table.num_graph_values)
    digest = hashlib.sha256(repr((CACHE_VERSION, rdkit.__version__, spec, meaning)).encode())
    for name in spec.files:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file")
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _checked(data: PackedGraphs, spec: OGBSet, where: Path) -> PackedGraphs:
    """The store, after warnings of what differs from the published set."""
    size = len(data) + len(data.rejects)
    if size != spec.size:
        warn_unlike_published(f"{where}: has {size:,} graphs, but {spec.name} {spec.size:,}")
    if data.rejects:
        there = ", ".join(f"{part} {len(index):,}" for part, index in (data.split_idx or {}).items())
        logger.warning(
            f"{spec.name}: {len(data.rejects):,} of {size:,} SMILES give no molecule and are missing (see "
            f"rejects); there are: {there}"
        )
    return data


def _places(spec: OGBSet, root: str | os.PathLike[str] | None) -> tuple[Path | None, Path | None]:
    """The folder of a set with all of its files, or else that with its split, beside a table of SMILES."""
    folder = _find(spec, root, spec.files[0])
    if folder is not None or not spec.table:
        return folder, None
    return None, _find(spec, root, f"{SPLIT}/train.csv.gz")


def _find(spec: OGBSet, root: str | os.PathLike[str] | None, file: str) -> Path | None:
    """The folder of a set that holds a file of that name."""
    for base in data_folders(root):
        for folder in (base / "ogb" / spec.folder, base / spec.folder):
            if (folder / file).is_file():
                return folder
    return None


def _read(folder: Path, spec: OGBSet, features: str, num_workers: int | None, progress: bool) -> PackedGraphs:
    """The store of a folder: OGB's own graphs, or those that its SMILES give."""
    if spec.name == "pcqm4mv2":
        smiles, names, y = pcqm4mv2.read_molecules(folder)
        parts, where = pcqm4mv2.read_split(folder), spec.files[-1]
    else:
        y = read_labels(folder / LABELS, spec)
        smiles, names = read_mapping(folder / spec.files[-1], y)
        parts, where = read_parts(folder), SPLIT
    about = described(
        get_features(features),
        name=spec.name,
        task=spec.task,
        metric=spec.metric,
        target_names=names,
        unit=spec.unit,
    )
    if features == "ogb" and GRAPHS[0] in spec.files:
        data = read_graphs(folder, smiles, y, about)
    else:
        graphs, _ = featurize(smiles, features=features, num_workers=num_workers, progress=progress)
        data = graphs.with_targets(y[graphs.row.numpy()], **about.of_set())
        if NUM_NODES in spec.files:
            _compare_sizes(data, folder / NUM_NODES)
    data.split_idx = _split(data, parts, folder / where)
    return data


def _compare_sizes(data: PackedGraphs, path: Path) -> None:
    """Warn of molecules that have another number of atoms than OGB's graphs of them."""
    theirs = read_integers(path, 1, len(data) + len(data.rejects), "SMILES")[:, 0]
    theirs, ours = theirs[data.row.numpy()], num_atoms(data)
    if (other := np.flatnonzero(theirs != ours)).size:
        first = int(other[0])
        example = f"{data.smiles[first]!r} in line {int(data.row[first]) + 1}"
        warn_unlike_published(
            f"{path}: {len(other):,} graphs have another number of atoms than their SMILES give, such as "
            f"{example} with {theirs[first]} instead of {ours[first]}"
        )


def _split(data: PackedGraphs, parts: Mapping[str, np.ndarray], where: Path) -> SplitIndex:
    """Positions in ``data`` of OGB's numbers, in their order; those of rejects are left out."""
    size = len(data) + len(data.rejects)
    numbers = np.concatenate(list(parts.values()))
    if (outside := numbers[(numbers < 0) | (numbers >= size)]).size:
        raise ValueError(f"{where}: expected the number of a graph, from 0 to {size - 1}, got {outside[0]}")
    times = np.bincount(numbers, minlength=size)
    if (wrong := np.flatnonzero(times != 1)).size:
        raise ValueError(
            f"{where}: expected every graph in one part, got graph {wrong[0]} {times[wrong[0]]} times"
        )
    position = np.full(size, -1)
    position[data.row.numpy()] = np.arange(len(data))
    placed = {part: position[of_part] for part, of_part in parts.items()}
    return {part: index[index >= 0] for part, index in placed.items()}
