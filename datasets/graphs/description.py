"""What the values of a packed store mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

# By the task of data that name no metric of their own.
DEFAULT_METRIC = {
    "regression": "rmse",
    "classification": "roc_auc",
    "multiclass": "log_loss",
    "ordinal": "log_loss",
}
#: Tasks of one target with the classes 0, 1, …
SEVERAL_CLASSES = ("multiclass", "ordinal")
TASKS = ("regression", "classification", *SEVERAL_CLASSES)


@dataclass(frozen=True)
class Description:
    """What the arrays of a :class:`PackedGraphs` mean.

    Attributes:
        name: Name of the data set.
        features: Name of the featurizer that made the codes (``"ogb"``, ``"duvenaud+rw16"``, …), or ``""``.
        node_dims: Number of values of each column of node codes.
        num_edge_types: Number of values of an edge code; 0 without edge codes.
        task: ``"regression"``, ``"classification"`` (0 and 1, any number of targets), ``"multiclass"`` (one
            target, classes 0, 1, …), ``"ordinal"`` (the same, of classes that have an order) or ``None``.
        metric: ``"rmse"``, ``"mae"``, ``"roc_auc"``, … the data set's own metric, or ``None``.
        target_names: One name per column of ``y``.
        unit: Unit of the targets, for people.
        is_undirected: Every edge is there in both directions.
        num_node_values: Columns of ``x`` after the codes that are numbers, in units of 1/255.
        num_node_features: Columns of ``x`` that are features (floats) instead of codes; 0: ``x`` has codes.
        edge_values: The row of ``edge_attr`` that each edge code stands for, where PyG's graphs had anything
            but one integer from 0 to 255 per edge; whole numbers where they had integers.
        num_graph_values: Width of ``graph_x``, features of whole graphs; 0 without.
        classes: Names of the classes 0, 1, … of the one target, where they have names.
        smiles_columns: Columns of a table whose SMILES are joined, where there are several.
    """

    name: str = ""
    features: str = ""
    node_dims: tuple[int, ...] = ()
    num_edge_types: int = 0
    task: str | None = None
    metric: str | None = None
    target_names: tuple[str, ...] = ()
    unit: str = ""
    is_undirected: bool = False
    num_node_values: int = 0
    num_graph_values: int = 0
    num_node_features: int = 0
    edge_values: tuple[tuple[float, ...], ...] = ()
    classes: tuple[str, ...] = ()
    smiles_columns: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """What ``asdict`` gave and JSON kept, with lists for tuples. Earlier versions had fewer fields."""
        rows = tuple(map(tuple, fields.get("edge_values", ())))
        flat = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
        return cls(**flat | {"edge_values": rows})

    @property
    def numbered_edges(self) -> tuple[tuple[float, ...], ...]:
        """``edge_values``, if which code stands for which row depends on the graphs."""
        return numbered(self.edge_values)

    def of_set(self) -> dict[str, Any]:
        """What is said of the set and its targets: the same for other features of it."""
        names = ("name", "task", "metric", "target_names", "unit", "classes", "smiles_columns")
        return {name: getattr(self, name) for name in names}


def numbered(edge_values: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    """Rows that codes of edges stand for, or none of codes and one-hot rows, which always have the same."""
    one_hot = len(edge_values) > 1 and np.array_equal(edge_values, np.eye(len(edge_values)))
    codes = np.array_equal(edge_values, np.arange(len(edge_values))[:, None])
    return () if one_hot or codes else edge_values
