"""Peptides of the Long Range Graph Benchmark (Dwivedi et al. 2022), as packed graphs."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import torch
from torch_geometric.datasets import LRGBDataset

from wlkernelnn.datasets.files.download import data_folders, warn_unlike_published
from wlkernelnn.datasets.graphs.arrays import bounds_of
from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.datasets.molecules.features import get_features
from wlkernelnn.datasets.molecules.smiles import described
from wlkernelnn.utils.checks import check_one_of

# Both are of the same peptides: classes by function, and numbers of their shape.
_SETS = {"peptides-func": ("classification", "average_precision"), "peptides-struct": ("regression", "mae")}
_PARTS = {"train": "train", "valid": "val", "test": "test"}
_SIZE = 15_535


def load_lrgb(name: str, root: str | os.PathLike[str] | None = None) -> PackedGraphs:
    """Load the peptides of the Long Range Graph Benchmark with their published split.

    PyG's ``LRGBDataset`` reads, or fetches, the files: of a folder ``lrgb/peptides-func`` in ``root``
    (default ``$WLKERNELNN_DATA``) or in the user's cache, with ``raw/train.pt``, ``raw/val.pt`` and
    ``raw/test.pt``. No checksum of them is known.

    Args:
        name: ``"peptides-func"`` (10 classes of functions, average precision) or ``"peptides-struct"`` (11
            numbers of their shape, mean absolute error).
        root: Folder with published data sets.

    Returns:
        The graphs, with ``split_idx``; their codes are those of the features ``"ogb"``. They have no SMILES.

    Raises:
        ValueError: Unknown name, codes that OGB's tables do not have, or a file that could run code.
        OSError: The files are nowhere, and cannot be fetched.
    """
    check_one_of("name", name.lower(), _SETS)
    name = name.lower()
    folders = [folder / "lrgb" for folder in data_folders(root)]
    whole = (folder for folder in folders if (folder / name / "raw" / "test.pt").is_file())
    where = next(whole, folders[-1])
    sets = [_part(where, name, part) for part in _PARTS.values()]
    graphs = [graph for part in sets for graph in part]
    if len(graphs) != _SIZE:
        warn_unlike_published(f"{where / name}: has {len(graphs):,} graphs, but {name} {_SIZE:,}")
    task, metric = _SETS[name]
    features = get_features("ogb")
    y = torch.cat([graph.y for graph in graphs]).double().numpy()
    bounds = np.cumsum([0, *(len(part) for part in sets)])
    return PackedGraphs.pack(
        torch.cat([graph.x for graph in graphs]).numpy(),
        torch.cat([graph.edge_index for graph in graphs], dim=1).numpy(),
        bounds_of(np.array([graph.num_nodes for graph in graphs])),
        bounds_of(np.array([graph.num_edges for graph in graphs])),
        edge_type=features.encode_edge(torch.cat([graph.edge_attr for graph in graphs]).numpy()),
        y=y,
        description=described(
            features,
            name=f"lrgb/{name}",
            task=task,
            metric=metric,
            target_names=tuple(f"y{i + 1}" for i in range(y.shape[1])),
        ),
        split_idx={
            part: np.arange(begin, end)
            for part, begin, end in zip(_PARTS, bounds[:-1], bounds[1:], strict=True)
        },
    )


def _is_newer(folder: Path, part: str) -> bool:
    """Whether the published file changed since PyG processed it."""
    raw, processed = (folder / stage / f"{part}.pt" for stage in ("raw", "processed"))
    return raw.exists() and processed.exists() and raw.stat().st_mtime_ns > processed.stat().st_mtime_ns


def _part(where: Path, name: str, part: str) -> LRGBDataset:
    try:
        where.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # PyG warns of a file that is more than tensors before it reads it again, code and all.
            warnings.filterwarnings("error", message="Weights only load failed")
            return LRGBDataset(str(where), name, part, force_reload=_is_newer(where / name, part))
    except UserWarning as warning:
        raise ValueError(
            f"{where / name}: a file of its folders raw and processed holds more than tensors, "
            f"could run code, and is not read ({warning})"
        ) from warning
    except OSError as error:
        raise OSError(
            f"{name}: there is no {where / name / 'raw'} with train.pt, val.pt and test.pt, and it cannot be "
            f"fetched ({error})"
        ) from error
