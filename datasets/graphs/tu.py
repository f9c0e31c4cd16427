"""Graphs in the text format of the TU collection (Morris et al. 2020), as packed graphs."""

from __future__ import annotations

import logging
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.datasets.files.download import data_folders, fetch_folder, opened_zip
from wlkernelnn.datasets.files.number_rows import (
    Place,
    check_float32,
    check_lines,
    check_range,
    check_targets,
    fail,
    read_integers,
    read_numbers,
)

from .arrays import bounds_of, distinct_rows
from .description import Description
from .packed import PackedGraphs

logger = logging.getLogger("wlkernelnn")

URL = "https://www.chrsmrrs.com/graphkerneldatasets/{name}.zip"


def load_tu(
    name: str, root: str | os.PathLike[str] | None = None, use_node_attr: bool = False
) -> PackedGraphs:
    """Load a graph data set of the TU collection, such as MUTAG, or any other in its text format.

    The files ``NAME_A.txt``, ``NAME_graph_indicator.txt``, … are looked for in ``root`` (default
    ``$WLKERNELNN_DATA``), then in the user's cache, each time in the folders ``tu/NAME``, ``NAME``,
    ``NAME/raw`` (PyG's layout), in the folder itself, and in ``tu/NAME.zip``. If they are nowhere, the zip
    file is fetched from the collection's publisher into the cache; no checksum of it is known.

    Args:
        name: Name of the data set, as it begins the names of its files.
        root: Folder with published data sets.
        use_node_attr: Take the attributes of nodes into ``x``, as PyG's ``TUDataset`` does. ``x`` is then
            float32: the attributes, and behind them the codes of each column of labels one-hot.

    Returns:
        The graphs. An edge "a, b" of the file goes from a to b (undirected sets list both); repeated edges
        and loops are kept.

        * ``x`` holds a column for every column of node labels, as codes 0, 1, … in the order of the sorted
          labels; without node labels one column of zeros.
        * ``edge_type`` is such a code of an edge's labels (of its whole row, if there are several columns).
        * ``y``: class labels as 0, 1, … in the order of the sorted labels (``description.classes`` has the
          labels), or the values of ``NAME_graph_attributes.txt``, which make it a regression (NaN = missing).
        * ``description.task`` is ``"classification"`` for up to two classes and ``"multiclass"`` for more.

        Attributes of edges, and of nodes without ``use_node_attr``, are left out, with a warning.
        ``torch_geometric.datasets.TUDataset`` has them.

    Raises:
        FileNotFoundError: The files are nowhere and cannot be fetched: says what to put where. With
            ``use_node_attr``, the set has no attributes of nodes.
        ValueError: The name cannot be one, or a file is not as the format says: names file and line.
    """
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise ValueError(f"name must be that of a TU data set, such as MUTAG, got {name!r}")
    place = _locate(name, root)
    if place.is_dir():
        return _read(name, place, use_node_attr)
    with opened_zip(place) as archive:
        return _read(name, zipfile.Path(archive, f"{name}/"), use_node_attr)


def _locate(name: str, root: str | os.PathLike[str] | None) -> Path:
    """The folder or zip file of a data set; the folder is fetched into the cache if both are nowhere."""
    folders = data_folders(root)
    marker = f"{name}_A.txt"
    for base in folders:
        for folder in (base / "tu" / name, base / name, base / name / "raw", base):
            if (folder / marker).is_file():
                return folder
        if (base / "tu" / f"{name}.zip").is_file():
            return base / "tu" / f"{name}.zip"
    return fetch_folder(name, URL.format(name=name), f"tu/{name}", name, marker, root)


def _read(name: str, folder: Place, use_node_attr: bool) -> PackedGraphs:
    def file(part: str) -> Place:
        return folder / f"{name}_{part}.txt"

    graph = read_integers(file("graph_indicator"), columns=1)[:, 0]
    check_range(file("graph_indicator"), graph, 1, None, "the number of a graph, counted from 1")
    num_nodes, num_graphs = len(graph), int(graph.max(initial=0))
    graph -= 1
    # Nodes of a graph need not stand together in the file; here they do.
    order = np.argsort(graph, kind="stable")
    node_ptr = bounds_of(np.bincount(graph, minlength=num_graphs))
    place = np.empty(num_nodes, dtype=np.int64)
    place[order] = np.arange(num_nodes)
    place -= node_ptr[graph]

    edges = read_integers(file("A"), columns=2)
    check_range(file("A"), edges, 1, num_nodes, "the number of a node")
    source, target = (edges - 1).T
    if (crossing := np.flatnonzero(graph[source] != graph[target])).size:
        a, b = edges[crossing[0]]
        joined = f"node {a} of graph {graph[a - 1] + 1} and node {b} of graph {graph[b - 1] + 1} are joined"
        fail(file("A"), crossing[0], joined)
    edge_order = np.argsort(graph[source], kind="stable")

    x = np.zeros((num_nodes, 1), dtype=np.int64)
    node_dims: tuple[int, ...] = ()
    if file("node_labels").is_file():
        labels = read_integers(file("node_labels"), rows=num_nodes, of="nodes")
        values, codes = zip(*(np.unique(column, return_inverse=True) for column in labels.T), strict=True)
        x, node_dims = np.column_stack(codes), tuple(map(len, values))
    of_nodes: dict[str, Any] = {"node_dims": node_dims or (1,)}
    if use_node_attr:
        attributes = _node_attributes(file("node_attributes"), num_nodes)
        one_hot = [np.eye(dim)[column] for dim, column in zip(node_dims, x.T, strict=False)]
        x = np.column_stack([attributes, *one_hot])
        of_nodes = {"num_node_features": x.shape[1]}
    edge_type, num_edge_types = None, 0
    if file("edge_labels").is_file():
        labels = read_integers(file("edge_labels"), rows=len(edges), of="edges")
        kinds, edge_type = distinct_rows(labels)
        edge_type, num_edge_types = edge_type[edge_order], len(kinds)
    for part, remedy in (
        ("node_attributes", "use_node_attr=True takes them into x"),
        ("edge_attributes", "torch_geometric.datasets.TUDataset has them"),
    ):
        if file(part).is_file() and not (use_node_attr and part == "node_attributes"):
            logger.warning(f"{file(part)}: real numbers beside the codes are left out; {remedy}")

    y, about = _targets(name, folder, num_graphs)
    return PackedGraphs.pack(
        x[order],
        np.stack([place[source], place[target]])[:, edge_order],
        node_ptr,
        bounds_of(np.bincount(graph[source], minlength=num_graphs)),
        edge_type=edge_type,
        y=y,
        description=Description(name=name, num_edge_types=num_edge_types, **of_nodes, **about),
    )


def _node_attributes(path: Place, num_nodes: int) -> np.ndarray:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file, expected the attributes of nodes (use_node_attr)")
    values = read_numbers(path)
    check_lines(path, values, num_nodes, "nodes")
    check_float32(path, values)
    return values


def _targets(name: str, folder: Place, num_graphs: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Targets ``[G, tasks]`` and what the description says of them."""
    labels, attributes = (folder / f"{name}_graph_{kind}.txt" for kind in ("labels", "attributes"))
    if attributes.is_file():
        if labels.is_file():
            logger.warning(f"{labels}: left out, because {attributes} has targets for a regression")
        values = read_numbers(attributes)
        check_lines(attributes, values, num_graphs, "graphs")
        check_targets(attributes, values)
        names = tuple(f"attribute_{i + 1}" for i in range(values.shape[1]))
        return values, {"task": "regression", "metric": "mae", "target_names": names}
    if not labels.is_file():
        raise FileNotFoundError(f"{labels}: no such file, nor {attributes}: one of them has the targets")
    classes, codes = np.unique(read_integers(labels, 1, num_graphs, "graphs"), return_inverse=True)
    return codes.reshape(-1, 1), {
        "task": "classification" if len(classes) <= 2 else "multiclass",
        "metric": "accuracy",
        "target_names": ("class",),
        "classes": tuple(map(str, classes)),
    }
