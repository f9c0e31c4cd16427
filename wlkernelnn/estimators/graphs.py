"""Networks of graphs of any kind as an estimator of scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.utils import Tags

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.loader import as_packed
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import FitOptions
from wlkernelnn.utils.checks import check_one_of

from .molecules import MoleculeClassifier


class GraphClassifier(MoleculeClassifier):
    """Tells graphs of two or more classes apart by kernel networks, such as those of TU sets.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from wlkernelnn import GraphClassifier
    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> graphs = [Data(x=torch.tensor([[i % 3], [0]]), edge_index=edges) for i in range(30)]
    >>> model = GraphClassifier(epochs=2, hidden_channels=8).fit(graphs, 10 * ["a", "b", "c"])
    >>> model.predict_proba(graphs).shape
    (30, 3)

    Graphs are packed (``load_tu``) or as PyG has them, converted as ``PackedGraphs.from_pyg`` does; give
    those to predict with the codes or features of the training. Their own targets are not read.

    Args:
        model: ``"wl"`` or ``"stack"``, see :class:`MoleculeRegressor`, which has the other arguments too.

    Attributes:
        classes_: The classes, sorted; of targets ``[n, T]`` a list of 0 and 1 for each.
    """

    features = None

    def __init__(
        self,
        model: Literal["wl", "stack"] = "wl",
        *,
        ensemble_size: int = 1,
        hidden_channels: int | None = None,
        dropout: float = 0.0,
        epochs: int = FitOptions.epochs,
        batch_size: int = FitOptions.batch_size,
        lr: float = FitOptions.lr,
        weight_decay: float = FitOptions.weight_decay,
        patience: int = FitOptions.patience,
        validation_fraction: float = 0.1,
        network_options: Mapping[str, Any] | None = None,
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.ensemble_size = ensemble_size
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.network_options = network_options
        self.fit_options = fit_options
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        return tags

    def _fit(
        self, X: Any, y: np.ndarray, names: Sequence[str], devices: int, classes: Sequence[str] = ()
    ) -> None:
        check_one_of("model", self.model, tuple(SHORT_NAMES))
        super()._fit(X, y, names, devices, classes)

    def _graphs(self, X: Any, features: str) -> PackedGraphs:
        data = as_packed("X", X)
        return data if len(data) == data.len() else data.compact()
