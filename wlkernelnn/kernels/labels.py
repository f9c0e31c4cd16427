"""Labels of nodes and edges of flat graphs: what is compared for equality."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .flat_graphs import EDGE_FEATURES, FlatGraphs
from .names import row_numbers


def columns_of(values: np.ndarray | None) -> list[np.ndarray]:
    """The columns of features ``[N, width]`` or of one column ``[N]``."""
    if values is None:
        return []
    return [values] if values.ndim == 1 else list(values.T)


def label_columns(values: np.ndarray | None) -> list[np.ndarray]:
    """Columns of features that are compared for equality: fractions as float32 holds them.

    The same number may be a float32 in one graph and a float64 in another.
    """
    columns = columns_of(values)
    with np.errstate(over="ignore"):  # what float32 cannot hold is whole
        return [np.where(c % 1 == 0, c, c.astype(np.float32)) if is_float(c) else c for c in columns]


def is_float(values: np.ndarray | None) -> bool:
    """Whether features are compared by inner products, not as codes."""
    return values is not None and values.dtype.kind == "f"


def node_labels(graphs: FlatGraphs) -> np.ndarray:
    """One integer per node, the same for equal rows of ``x``."""
    return row_numbers(label_columns(graphs.x), int(graphs.node_ptr[-1]))


def edge_labels(graphs: FlatGraphs, names: Sequence[str] = EDGE_FEATURES) -> np.ndarray:
    """One integer per edge, the same for edges of equal type, attributes and weight."""
    columns = [column for name in names for column in label_columns(getattr(graphs, name))]
    return row_numbers(columns, int(graphs.edge_ptr[-1]))


def edge_codes(graphs: FlatGraphs) -> np.ndarray:
    """As :func:`edge_labels`, without what is multiplied: weights, and attributes that are floats."""
    return edge_labels(graphs, ("edge_type",) if is_float(graphs.edge_attr) else ("edge_type", "edge_attr"))
