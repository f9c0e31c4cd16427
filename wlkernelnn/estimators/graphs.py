"""Networks of graphs of any kind as estimators of scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from sklearn.utils import Tags

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.loader import packed
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import Ensemble
from wlkernelnn.utils.checks import check_one_of

from .base import MoleculeEstimator
from .molecules import MoleculeClassifier, MoleculeRegressor


class GraphEstimator(MoleculeEstimator):
    """What both estimators of graphs share."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = False
        return tags

    def _fit(self, *arguments: Any, **more: Any) -> None:
        check_one_of("model", self.model, tuple(SHORT_NAMES))
        super()._fit(*arguments, **more)

    def _graphs(self, X: Any, features: str) -> PackedGraphs:
        data = packed("X", X)
        if not len(data):
            raise ValueError("X has no graphs, expected some to learn from")
        return data if data.whole else data.compact()

    def _new_graphs(self, X: Any) -> PackedGraphs:
        assert isinstance(self._fitted, Ensemble)
        return self._fitted.networks[0].packed("X", X)


@dataclass(eq=False, repr=False)
class GraphRegressor(GraphEstimator, MoleculeRegressor):
    """Predicts numbers of graphs by kernel networks, such as properties of PyG's QM9 or ZINC.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> from wlkernelnn import GraphRegressor
    >>> edges = torch.tensor([[0, 1], [1, 0]])
    >>> graphs = [Data(x=torch.tensor([[i % 3], [0]]), edge_index=edges) for i in range(30)]
    >>> model = GraphRegressor(epochs=2, hidden_channels=8).fit(graphs, [i % 3 for i in range(30)])
    >>> model.predict(graphs).shape
    (30,)

    Graphs are those of :class:`GraphClassifier`, and so are the arguments; targets are those of
    :class:`MoleculeRegressor`.
    """

    model: Literal["wl", "stack"] = "wl"
    features: str | None = field(default=None, init=False)


@dataclass(eq=False, repr=False)
class GraphClassifier(GraphEstimator, MoleculeClassifier):
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
    Cross-validate over packed graphs: those of each fold keep the number of codes of all.

    Args:
        model: ``"wl"`` or ``"stack"``, see :class:`MoleculeRegressor`, which has the other arguments too.

    Attributes:
        classes_: The classes, sorted; of targets ``[n, T]`` a list of 0 and 1 for each.
    """

    model: Literal["wl", "stack"] = "wl"
    features: str | None = field(default=None, init=False)
