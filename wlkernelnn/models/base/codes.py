"""Graphs given for a network, with the codes of edges that it was sized by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.loader import Graphs, packed
from wlkernelnn.utils.text import shortened


def packed_with_rows(name: str, data: Graphs, rows: Sequence[Sequence[float]]) -> PackedGraphs:
    """Graphs whose codes of edges stand for ``rows`` of ``edge_attr``.

    Raises:
        TypeError: ``data`` is not a packed store nor graphs of PyG.
        ValueError: An edge has another row, or the codes of a store are not known to stand for these.
    """
    graphs = packed(name, data, rows)
    there = tuple(map(tuple, graphs.description.edge_values))
    if there != rows and graphs.arrays.source.numel():
        what = "stand for other values than" if there else "are not said to stand for"
        raise ValueError(
            f"{name}: its codes of edges {what} those of the graphs that sized the network: convert with "
            "PackedGraphs.from_pyg(graphs, edge_values=network.edge_values)"
        )
    return graphs


def check_codes(name: str, graphs: PackedGraphs, number: int, any_rows: bool) -> None:
    """Refuse edges without codes, or with others than ``number`` that a network has tables for.

    Args:
        name: Of the argument, for messages.
        graphs: With edges.
        number: The network's ``num_edge_types``.
        any_rows: Take codes that stand for rows of ``edge_attr``, whichever.
    """
    about = graphs.description
    if number != 1 and not about.num_edge_types and not graphs.arrays.edge_type.any():
        raise ValueError(
            f"{name}: its edges have neither edge_attr nor edge_type, expected one of {number} codes for "
            f"each, as the network has num_edge_types={number}"
        )
    if about.numbered_edges:
        if not any_rows:
            rows = f"the rows {shortened(about.numbered_edges)} of edge_attr"
            raise ValueError(
                f"{name}: its codes of edges stand for {rows}, expected codes or one-hot rows, as the "
                "network has no edge_values: size one by such graphs (from_data), or give it edge_values"
            )
        return
    width = len(about.edge_values[0]) if about.edge_values else 1
    if width not in (1, number):
        raise ValueError(
            f"{name}: its edge_attr has one-hot rows of width {width}, expected width {number}, as "
            f"the network has num_edge_types={number}"
        )


def check_x(name: str, graphs: Graphs, num_columns: int) -> None:
    """Refuse graphs without the codes of nodes that a network has tables for: a store takes them for 0."""
    for i in range(len(graphs)):  # type: ignore[arg-type]  # data sets of PyG have a length
        if graphs[i].num_nodes:
            x = graphs[i].get("x")
            if x is None or 0 in np.shape(x):
                raise ValueError(
                    f"{name}: graph {i} has no x, expected codes [N, {num_columns}], as those of the graphs "
                    "that sized the network"
                )
            return
