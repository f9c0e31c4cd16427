"""Train and score networks around cells that are grown as trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.datasets import PackedStrings, StringLoader
from wlkernelnn.sequence.rrnn import (
    RRNN,
    Construction,
    TreeLoss,
    alternate,
    imitation,
    tree_counts,
    tuple_choices,
)
from wlkernelnn.sequence.rrnn.layers.tree_model import TreeModel
from wlkernelnn.training.loop import FitResult, train_module
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.options import LoopOptions
from wlkernelnn.utils.checks import check_one_of
from wlkernelnn.utils.modes import evaluating

from .scores import EVALUATION_BATCH, SCORES, label_nll, label_score, label_totals

# Tokens of a batch at which the scorer imitates, and strings whose own trees are grown in a warm start.
NUM_IMITATED, NUM_GROWN = 24, 2
# Most common trees that are kept of every epoch.
NUM_COMMON = 3

CommonTree = tuple[tuple[Construction, ...], float]


@dataclass
class TreeOptions(LoopOptions):
    """Options of :func:`fit_trees`.

    Args:
        batch_size: Strings in a batch.
        lr: Learning rate of Adam.
        weights, max_margin, cell, isomorphisms: Of the loss (6), see
            :class:`~wlkernelnn.sequence.rrnn.TreeLoss`.
        alternate: After how many epochs the training of tuples and of the scorer take turns; 0: both are
            trained all the time.
        imitation: Weight of :func:`~wlkernelnn.sequence.rrnn.imitation`, summed over the nodes of a token,
            mean over some tokens: how far the scorer is from growing the target's trees. 0: the target
            matters by its distance only. Only for an :class:`~wlkernelnn.sequence.RRNN`.
        warm_start: For so many epochs all trees are the target's, while the scorer imitates them; validation
            is with the network's own trees. Not with batch normalisation.

    The other options are those of :class:`LoopOptions`.
    """

    batch_size: int = 32
    weights: tuple[float, float, float, float] = (1.0, 1e-3, 1e-3, 1e-5)
    max_margin: float = 1.0
    cell: str = "gru"
    isomorphisms: str = "exact"
    alternate: int = 0
    imitation: float = 0.0
    warm_start: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warm_start and not self.imitation:
            raise ValueError(f"warm_start must be at least 0, and 0 without imitation, got {self.warm_start}")
        TreeLoss(self.cell, self.weights, self.max_margin, self.isomorphisms)  # checks them


@dataclass
class TreeFit(FitResult):
    """What :func:`fit_trees` did.

    Attributes:
        common: For every epoch, the most common trees of the validation strings, each as the constructions
            of its nodes (see :func:`~wlkernelnn.sequence.rrnn.tree_counts`) with its share of the tokens.
    """

    common: list[list[CommonTree]]


def fit_trees(
    network: torch.nn.Module,
    train: PackedStrings,
    valid: PackedStrings,
    metric: str,
    options: TreeOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> TreeFit:
    r"""Train ``network`` in place by the loss (6) of "Dynamic Cell Structure via Recursive-Recurrent Neural
    Networks"; afterwards it holds the weights of the best validation score.

    Its :class:`~wlkernelnn.sequence.rrnn.layers.TreeModel` grows the trees. A network without one is
    trained by what is left of the loss, :math:`\lambda_1 \ell + \lambda_4 \sum_\phi \|\phi\|^2`: the baseline
    under the same conditions. :math:`\phi` are all parameters but embeddings. Validation is with hard
    choices. ``history`` also has ``changed_tuples``: :math:`N_e`, the number of nodes in the trees of the
    validation strings whose tuple is another than in the epoch before, and ``imitation`` before its weight.
    The same arguments on the same machine give the same weights, also if training was resumed.

    Args:
        network: Called with tokens ``[N]`` and ``ptr [B+1]``; its logits ``[L, classes]`` are in the order of
            the L labels of the strings, ``y`` flattened.
        train, valid: Strings with int64 classes ``y``.
        metric: Of validation: ``"accuracy"``, ``"bpc"`` (bits per label) or ``"perplexity"``.
        options: How to train.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.

    Raises:
        ValueError: No strings, a network that grows trees in several places, or not those that ``imitation``
            or the tree distance need, classes for which it has no logit, or an unknown metric.
        ValueError, FileExistsError, DivergedError: As of :func:`~wlkernelnn.training.fit`.
    """
    options = options or TreeOptions()
    check_one_of("metric", metric, SCORES)
    for name, strings in (("train", train), ("valid", valid)):
        if not len(strings):
            raise ValueError(f"{name} has no strings")
    module = _TreeModule(network, metric, options)
    with module.at_work():
        result = train_module(
            module,
            StringLoader(train, options.batch_size, shuffle=True, seed=options.seed),
            StringLoader(valid, EVALUATION_BATCH),
            origin={"train": train, "valid": valid, "network": network, "metric": metric},
            directory=directory,
            resume=resume,
            progress=progress,
        )
    return TreeFit(**vars(result), common=module.common)


def tree_model_of(network: torch.nn.Module) -> TreeModel | None:
    """The part of a network that grows trees, if there is one, or an error if there are several."""
    found = [part for part in network.modules() if isinstance(part, TreeModel)]
    if len(found) > 1:
        raise ValueError(f"expected a network with one part that grows trees at most, got {len(found)}")
    return found[0] if found else None


class _TreeModule(TrainedModule):
    """Trains a network, and keeps account of its trees."""

    def __init__(self, network: torch.nn.Module, metric: str, options: TreeOptions) -> None:
        super().__init__(network, options, metric, maximize=metric == "accuracy")
        self.criterion = TreeLoss(options.cell, options.weights, options.max_margin, options.isomorphisms)
        self.learned = [parameter for parameter in network.parameters() if parameter.requires_grad]
        # φ of the loss (6): vectors of tokens are data there.
        embeddings = [part for part in network.modules() if isinstance(part, torch.nn.Embedding)]
        of_tokens = {parameter for part in embeddings for parameter in part.parameters()}
        self.weighted = [parameter for parameter in self.learned if parameter not in of_tokens]
        self.common: list[list[CommonTree]] = []
        self._before: Tensor | None = None
        if options.imitation:
            self._check_imitation()

    @property
    def _trees(self) -> TreeModel | None:
        return tree_model_of(self.model)

    @property
    def _warm(self) -> bool:
        return self.current_epoch < self.options.warm_start

    def _check_imitation(self) -> None:
        trees = self._trees
        if not isinstance(trees, RRNN):
            kind = type(self.model if trees is None else trees).__name__
            raise ValueError(f"imitation={self.options.imitation:g} needs a network with an RRNN, got {kind}")
        self.criterion.check(trees)
        trees.check_cell(self.criterion.cell)
        if self.options.warm_start and trees.norm is not None and trees.norm.kind == "batch":
            # The network's own trees have no statistics yet: nothing would bound them in evaluation.
            raise ValueError('warm_start needs a network whose norm is not "batch"')

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Trees are kept; afterwards, the same parameters are learned as before, those out of turn too."""
        trees = self._trees
        keep_trees = trees is not None and trees.keep_trees
        learned = {parameter: parameter.requires_grad for parameter in self.model.parameters()}
        if trees is not None:
            trees.keep_trees = True
        try:
            yield
        finally:
            for parameter, before in learned.items():
                parameter.requires_grad_(before)
            if trees is not None:
                trees.keep_trees, trees.last_trees, trees.cell = keep_trees, None, None

    def on_train_epoch_start(self) -> None:
        super().on_train_epoch_start()
        if (trees := self._trees) is not None and self.options.alternate and not self._warm:
            alternate(trees, self.current_epoch, self.options.alternate)

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        trees = self._trees
        if trees is not None:
            trees.cell = self.criterion.cell if self._warm else None
        logits = self.model(batch.x, batch.ptr)
        nll = label_nll(logits, batch.y)
        size = len(batch.y)
        self.log_loss(nll / batch.y.numel(), size)
        loss = nll / size
        if trees is not None and trees.last_trees is not None:  # empty strings grow none
            parts = self.criterion(loss, trees, self.weighted)
            self.log_loss(parts.distance, size, "tree_distance")
            if not self.options.imitation:
                return parts.total
            return parts.total + self.options.imitation * self._imitation(batch, trees)
        by_output, _, _, by_squares = self.options.weights
        squares = torch.stack([parameter.square().sum() for parameter in self.weighted])
        return by_output * loss + by_squares * squares.sum()

    def _imitation(self, batch: Data, trees: TreeModel) -> Tensor:
        records = [trees.last_trees]
        if self._warm:
            # The target's trees lead to other states than the network's own, from which it must find back.
            trees.cell = None
            with evaluating(self.model), torch.no_grad():
                some = batch.ptr[: NUM_GROWN + 1]
                self.model(batch.x[: int(some[-1])], some)
            records.append(trees.last_trees)
        leaves = [
            record.leaves[torch.randperm(len(record), device=self.device)[: NUM_IMITATED // len(records)]]
            for record in records
            if record is not None  # the first strings may be empty
        ]
        losses = imitation(trees, self.criterion.cell, torch.cat(leaves).detach()).sum(1).mean()
        self.log_loss(losses, len(batch.y), "imitation")
        return losses

    def on_validation_epoch_start(self) -> None:
        if (trees := self._trees) is not None:
            trees.cell = None
        self._sums = torch.zeros(3, dtype=torch.float64)
        self._choices: list[Tensor] = []
        self._counts: Counter[tuple[Construction, ...]] = Counter()

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        self._sums += label_totals(self.model(batch.x, batch.ptr), batch.y)
        trees = self._trees
        if trees is not None and (record := trees.last_trees) is not None:
            self._choices.append(tuple_choices(record).to("cpu", torch.int16))
            self._counts.update(tree_counts(record, trees.num_states - 1))

    def on_validation_epoch_end(self) -> None:
        self.log_score(label_score(self._sums, self.metric))
        if not self._choices:
            return
        choices = torch.cat(self._choices)
        if self._before is not None:
            self.log("changed_tuples", float((choices != self._before).sum()))
        self._before = choices
        most = self._counts.most_common(NUM_COMMON)
        self.common.append([(made, count / self._counts.total()) for made, count in most])

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        # Only plain tuples may be in a file that is read with weights_only.
        common = [[(tuple(map(tuple, made)), share) for made, share in epoch] for epoch in self.common]
        checkpoint["trees"] = (self._before, common)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self._before, common = checkpoint["trees"]
        self.common = [
            [(tuple(Construction(*node) for node in made), share) for made, share in epoch]
            for epoch in common
        ]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.adam(self.learned)
