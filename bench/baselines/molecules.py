"""What ours are compared with: the mean, Morgan fingerprints with a forest or ridge, GINE, random walks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from rdkit import Chem, rdBase
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, is_classifier
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.nn import MLP, BatchNorm, GINEConv

from wlkernelnn.bench.harness.parameters import count_parameters, width_for
from wlkernelnn.colours.norms import CountedRows
from wlkernelnn.conv import RandomWalkKernelConv
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC
from wlkernelnn.datasets.molecules.additions import SIZE, morgan_counts
from wlkernelnn.models import GraphNetwork
from wlkernelnn.models.virtual_node import VirtualNode
from wlkernelnn.ops.colours import Quotient
from wlkernelnn.ops.graph import SortedEdges, relabel_sum
from wlkernelnn.training import FitOptions, fit, get_metric, predict, score
from wlkernelnn.utils.checks import check_dropout

ALPHAS = tuple(10.0 ** np.arange(-1, 5))


@dataclass(frozen=True)
class Result:
    """Predictions of a method for a test set."""

    name: str
    prediction: np.ndarray  # [G, tasks]: values in the unit of the targets, or probabilities of class 1
    parameters: int  # of a forest: the nodes of its trees
    seconds: float  # of a network, its epochs; else of fitting and predicting, fingerprints included


def _means(data: PackedGraphs) -> np.ndarray:
    """The mean of every task's known targets, ``[tasks]``, or 0."""
    return data.y.double().nanmean(0).nan_to_num(0.0).numpy()


def mean_predictor(train: PackedGraphs, test: PackedGraphs) -> Result:
    """Predict the mean of the training targets: for classes, how frequent class 1 is."""
    start = time.perf_counter()
    prediction = np.tile(_means(train), (len(test), 1))
    return Result("mean of training set", prediction, train.num_tasks, time.perf_counter() - start)


def fingerprints(data: PackedGraphs) -> np.ndarray:
    """Morgan counts of all molecules, float32 ``[G, SIZE]``."""
    with rdBase.BlockLogs():
        counts = [morgan_counts(Chem.MolFromSmiles(text)) for text in data.smiles]
    return np.array(counts, dtype=np.float32).reshape(len(counts), SIZE)


def fit_tasks(
    make: Callable[[], BaseEstimator], train: PackedGraphs, x: Any, others: Sequence[Any]
) -> tuple[list[BaseEstimator], list[np.ndarray]]:
    """Fit a model per task on its known targets; the models, and predictions ``[len(other), tasks]``.

    A task whose known targets are all the same gets no model: its mean is predicted.
    """
    predictions = [np.tile(_means(train), (other.shape[0], 1)) for other in others]
    models = []
    for task, y in enumerate(train.y.double().numpy().T):
        known = ~np.isnan(y)
        if len(np.unique(y[known])) < 2:
            continue
        model = make().fit(x[known], y[known])
        models.append(model)
        for prediction, other in zip(predictions, others, strict=True):
            prediction[:, task] = (
                model.predict_proba(other)[:, 1] if is_classifier(model) else model.predict(other)
            )
    return models, predictions


def random_forest(train: PackedGraphs, test: PackedGraphs, seed: int = 0, num_trees: int = 500) -> Result:
    """A random forest on Morgan counts, with scikit-learn's defaults for classes.

    For regression a split looks at a third of the columns, as Breiman recommends, not at all of them.
    """
    start = time.perf_counter()
    same = {"random_state": seed, "n_jobs": -1}
    if train.task == "classification":
        make = partial(RandomForestClassifier, num_trees, **same)
    else:
        make = partial(RandomForestRegressor, num_trees, max_features=1 / 3, **same)
    models, (prediction,) = fit_tasks(make, train, fingerprints(train), [fingerprints(test)])
    nodes = sum(tree.tree_.node_count for model in models for tree in model.estimators_)
    return Result("Morgan random forest", prediction, nodes, time.perf_counter() - start)


def ridge(train: PackedGraphs, valid: PackedGraphs, test: PackedGraphs) -> Result:
    """Ridge regression on Morgan counts, or logistic regression for classes.

    The strength of the penalty, one of ``ALPHAS``, is that with the best score on ``valid``.
    """
    start = time.perf_counter()
    x, *others = (csr_matrix(fingerprints(part)) for part in (train, valid, test))
    classes = train.task == "classification"
    metric = train.metric or DEFAULT_METRIC["classification" if classes else "regression"]
    sign = 1 if get_metric(metric).maximize else -1
    best: tuple[float, int, np.ndarray] | None = None
    for alpha in ALPHAS:
        make = partial(LogisticRegression, C=1 / alpha, max_iter=5000) if classes else partial(Ridge, alpha)
        models, (on_valid, on_test) = fit_tasks(make, train, x, others)
        value = sign * score(metric, valid.y.numpy(), on_valid)
        if best is None or value > best[0]:
            best = value, sum(model.coef_.size + 1 for model in models), on_test
    assert best is not None
    name = "Morgan logistic regression" if classes else "Morgan ridge"
    return Result(name, best[2], best[1], time.perf_counter() - start)


class GINENetwork(GraphNetwork):
    """GINE convolutions (Hu et al. 2020) between the encoder, pooling, norm and head of our networks.

    As in OGB's example, each has a table of edge codes, a perceptron and batch norm. Each colour of a batch
    is computed once, with the same outputs, gradients and running statistics as by nodes. With
    ``layer_dropout``, ``virtual_node`` or ``quotient=False`` every node is computed.

    Args:
        node_dims, hidden_channels: As of :class:`~wlkernelnn.models.GraphKernelNetwork`.
        num_layers: Number of convolutions.
        layer_dropout: Probability that an entry of a layer's result is dropped.
        residual: Whether the states before a layer are added to its result.
        virtual_node: Whether between layers all nodes of a graph hear from each other.
        quotient: As of :class:`~wlkernelnn.models.GraphKernelNetwork`.
        **shared: Arguments of :class:`~wlkernelnn.models.GraphNetwork`, such as ``pooling`` and ``dropout``.

    Raises:
        ValueError: An argument is out of its range, or there are no edge codes.
    """

    def __init__(
        self,
        node_dims: Sequence[int],
        hidden_channels: int = 128,
        num_layers: int = 4,
        layer_dropout: float = 0.0,
        residual: bool = False,
        virtual_node: bool = False,
        quotient: bool | str = "auto",
        **shared: Any,
    ) -> None:
        num_steps = None if virtual_node or layer_dropout else num_layers
        super().__init__(node_dims, hidden_channels, num_steps=num_steps, quotient=quotient, **shared)
        if self.num_edge_types is None:
            raise ValueError("GINE needs edge codes, got num_edge_types=None")
        check_dropout(layer_dropout, "layer_dropout")
        edge_tables, convs, norms = ([] for _ in range(3))
        # Batch norm has no variance for a batch of a single atom.
        single = {"allow_single_element": True}
        for _ in range(num_layers):
            edge_tables.append(torch.nn.Embedding(self.num_edge_types, hidden_channels))
            mlp = MLP([hidden_channels, 2 * hidden_channels, hidden_channels], norm_kwargs=single)
            convs.append(GINEConv(mlp, train_eps=True))
            norms.append(BatchNorm(hidden_channels, **single))
        self.edge_tables, self.convs, self.norms = map(torch.nn.ModuleList, (edge_tables, convs, norms))
        between = num_layers - 1 if virtual_node else 0
        self.virtual_nodes = torch.nn.ModuleList(VirtualNode(hidden_channels) for _ in range(between))
        self.layer_dropout = torch.nn.Dropout(layer_dropout)
        self.residual = residual

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        h = self.encoder(codes)
        if isinstance(graph, Quotient):
            return self._states_of_colours(h, graph)
        edge_index, edge_type = self.edges(graph)
        g = h.new_zeros(graph.ptr.numel() - 1, h.size(1))
        layers = zip(self.edge_tables, self.convs, self.norms, strict=True)
        for layer, (table, conv, norm) in enumerate(layers):
            if layer > 0 and self.virtual_nodes:
                h, g = self.virtual_nodes[layer - 1](h, g, graph.ptr, graph.batch)
            new = self.layer_dropout(norm(conv(h.relu(), edge_index, table(edge_type))))
            h = h + new if self.residual else new
        return h

    def _states_of_colours(self, h: Tensor, quotient: Quotient) -> Tensor:
        layers: Iterator[Any] = zip(self.edge_tables, self.convs, self.norms, strict=True)
        steps = zip(quotient.levels, nodes_of_colours(quotient), strict=True)
        for (level, count), (table, conv, norm) in zip(steps, layers, strict=False):
            edges = SortedEdges(level.source, level.target, level.indptr, h.size(0), None)
            x = h.relu()
            near = relabel_sum(x, edges, torch.nn.ReLU(), table.weight, level.edge_type)
            rows = (1 + conv.eps) * x.index_select(0, level.own) + near
            if len(rows) == 1 and count > 1:  # PyG's norm takes a single row for a single node
                rows, count = rows.expand(2, -1), torch.cat([count - 1, torch.ones_like(count)])
            with CountedRows({len(rows): count}):
                new = norm(conv.nn(rows))[: len(level.own)]
            h = h.index_select(0, level.own) + new if self.residual else new
        for level in quotient.levels[len(self.convs) :]:
            h = h.index_select(0, level.own)
        return h


def nodes_of_colours(quotient: Quotient) -> list[Tensor]:
    """How many nodes have each colour, int64 ``[C]``, on the levels from 1 on."""
    node, counts = quotient.node, []
    for level in reversed(quotient.levels):
        counts.append(node.bincount(minlength=level.own.numel()))
        node = level.own.index_select(0, node)
    return counts[::-1]


class RandomWalkNetwork(GraphNetwork):
    r"""A :class:`~wlkernelnn.RandomWalkKernelConv` between the encoder, pooling and head of our networks.

    :math:`h^{(0)} = \mathrm{relu}(W f)`, the layer, and the sum over nodes (Lei et al. 2017, section 3.2).
    """

    def __init__(
        self,
        node_dims: Sequence[int],
        hidden_channels: int = 175,
        walk_length: int = 5,
        decay: float | str = "gated",
        all_lengths: bool = True,
        **shared: Any,
    ) -> None:
        shared = {"quotient": "auto"} | shared
        super().__init__(node_dims, hidden_channels, num_steps=walk_length - 1, **shared)
        self.conv = RandomWalkKernelConv(
            hidden_channels,
            hidden_channels,
            walk_length,
            decay,
            num_edge_types=self.num_edge_types,
            all_lengths=all_lengths,
        )

    def states(self, codes: Tensor, graph: Data | Quotient) -> Tensor:
        h = self.encoder(codes).relu()
        edge_index, edge_type = self.edges(graph)
        return self.conv(h, edge_index, edge_type=edge_type)


def gine(
    train: PackedGraphs,
    valid: PackedGraphs,
    test: PackedGraphs,
    parameters: int,
    options: FitOptions,
    **network: Any,
) -> Result:
    """Train a :class:`GINENetwork` of about so many parameters, by the recipe of our networks."""
    make = partial(GINENetwork.from_data, train, **network)
    width = width_for(lambda width: make(hidden_channels=width), parameters)
    torch.manual_seed(options.seed)
    net = make(hidden_channels=width)
    fitted = fit(net, train, valid, options, progress=True)
    return Result("GINE", predict(net, test), count_parameters(net), sum(fitted.epoch_seconds))
