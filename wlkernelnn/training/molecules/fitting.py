"""Train a network on a packed data set."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning.callbacks import Callback, WeightAveraging
from torch import Tensor

from wlkernelnn.datasets import BucketResampler, PackedGraphs, PackedLoader
from wlkernelnn.datasets.graphs.description import DEFAULT_METRIC, SEVERAL_CLASSES
from wlkernelnn.datasets.graphs.loader import Graphs
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training.classes import class_weights
from wlkernelnn.training.loop import FitResult, check_patience, train_module
from wlkernelnn.training.options import FitOptions

from .metrics import get_metric, score
from .module import NetworkModule

log = logging.getLogger("wlkernelnn")

EVALUATION_BATCH = 512


@torch.no_grad()
def _move_average(
    decay: float, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Tensor
) -> None:
    """Exponential averaging whose memory grows with the number of steps, up to ``decay``.

    Buffers are averaged as weights are: the statistics of batch norm belong to them. Counts stay as they are.
    """
    if not averaged[0].is_floating_point():
        return
    steps = int(num_averaged)
    weight = 1.0 - min(decay, (1 + steps) / (10 + steps))
    # Lightning makes the copy that is averaged before it converts the network to, say, float64.
    alike = [new.to(old.dtype) for old, new in zip(averaged, current, strict=True)]
    torch._foreach_lerp_(list(averaged), alike, weight)


def fit(
    net: GraphNetwork,
    train: Graphs,
    valid: Graphs | None = None,
    options: FitOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    callbacks: Sequence[Callback] = (),
    logger: Any = None,
) -> FitResult:
    """Train ``net`` in place; afterwards it holds the weights of the best validation epoch.

    Without ``valid`` the last weights are kept. The same arguments on the same machine give the same weights,
    also if training was interrupted and resumed.

    Args:
        net: The network.
        train, valid: Graphs with targets (NaN = missing): packed, or as PyG has them (packed here, see
            ``PackedGraphs.from_pyg``). Of bounds (``load_molecules(…, censored=True)``) errors count on their
            wrong side alone (``loss="mve"``: the probability beyond them), and scores leave them out.
        options: How to train.
        directory: Where Lightning keeps its checkpoints of the run, for ``resume``; default nowhere.
        resume: Go on from the last epoch that lies in ``directory``, if there is one.
        progress: Show a progress bar, if there is a terminal or notebook to show it in. Without it, a line
            per epoch goes to the logger ``wlkernelnn``.
        callbacks: Callbacks of Lightning; those with a state are kept in its checkpoints too.
        logger: A logger of Lightning, or several: they get ``train_loss``, ``valid_loss`` and
            ``valid_<metric>`` of every epoch.

    Raises:
        TypeError: ``train`` or ``valid`` is not a packed store nor graphs of PyG.
        ValueError: No training graphs, targets that don't fit the network, an unknown metric or one that
            ``valid`` cannot be scored by, ``patience`` without ``valid``, ``resume`` without ``directory``,
            from a damaged file, or of a training of other data, of another network or with other options
            (epochs, patience, accelerator and devices may differ), or an accelerator that this machine lacks.
        ChildProcessError: One of several processes was killed.
        FileExistsError: Another process trains in ``directory``.
        DivergedError: Training diverged.
    """
    options = options or FitOptions()
    train, valid = net.packed("train", train), None if valid is None else net.packed("valid", valid)
    for name, data in (("train", train), ("valid", valid)):
        if data is None:
            continue
        expected = 1 if net.task in SEVERAL_CLASSES else net.num_tasks
        if len(data) == 0 or data.num_tasks != expected:
            raise ValueError(
                f"{name} has {len(data)} graphs with {data.num_tasks} targets, expected at least one graph "
                f"with {expected}"
            )
        if net.task in SEVERAL_CLASSES and (data.task != net.task or len(data.classes) > net.num_tasks):
            classes = len(data.classes) if data.task == net.task else f"a {data.task} and not"
            raise ValueError(f"{name} has {classes} classes, expected the {net.num_tasks} of the network")
        check_loss(data, net.loss)
    metric = check_fit(train, valid, net.task, options)
    _warn_of_targets(train)
    resample = _resampler(train, options)
    loader = PackedLoader(
        train,
        options.batch_size,
        shuffle=resample is None,
        seed=options.seed,
        resample=resample,
        quotient=net.depth_for(train),
    )
    number = net.num_tasks if net.task in SEVERAL_CLASSES else 2
    weights = class_weights(options.class_weight, train.y, number)
    averaged: list[Callback] = []
    if options.ema_decay:
        averaged.append(WeightAveraging(multi_avg_fn=partial(_move_average, options.ema_decay)))
    return train_module(
        NetworkModule(net, options, metric, len(loader.positions()), weights, chooses_in_deviations(train)),
        loader,
        None if valid is None else PackedLoader(valid, EVALUATION_BATCH, quotient=net.depth_for(valid)),
        origin={"train": train, "valid": valid, "network": net},
        directory=directory,
        resume=resume,
        progress=progress,
        callbacks=[*averaged, *callbacks],
        logger=logger,
    )


def check_fit(train: PackedGraphs, valid: PackedGraphs | None, task: str, options: FitOptions) -> str:
    """Refuse options that don't fit the data of a training; the name of its metric."""
    metric = options.metric or train.metric or DEFAULT_METRIC[task]
    get_metric(metric, task)
    if valid is not None and not _can_be_scored(valid, metric, task):
        raise ValueError(
            f"{metric} cannot be computed for the {len(valid)} graphs of valid: no task has the targets that "
            "it needs (two classes, for example, or values that differ); take another split or metric"
        )
    check_patience(options, valid is not None)
    if options.class_weight and task == "regression":
        raise ValueError("class_weight is of classes, and the targets are numbers of a regression")
    _resampler(train, options)  # refuses targets that have no buckets
    return metric


def chooses_in_deviations(data: PackedGraphs) -> bool:
    """Whether choices go by errors in units of the deviations of several targets.

    Not of a published set with another metric than RMSE, such as QM8, which publishes its mean MAE.
    """
    of_numbers = (data.task or "regression") == "regression" and data.num_tasks > 1
    return of_numbers and data.metric in (None, DEFAULT_METRIC["regression"])


def _can_be_scored(valid: PackedGraphs, metric: str, task: str) -> bool:
    """Whether any target has a score, by predictions that differ, as a rank correlation needs."""
    width = len(valid.classes) if task in SEVERAL_CLASSES else valid.num_tasks
    prediction = np.repeat(np.linspace(0, 1, len(valid))[:, None], width, axis=1)
    return not math.isnan(score(metric, valid.measured.numpy(), prediction))


def _warn_of_targets(train: PackedGraphs) -> None:
    """Warn of each target that teaches the network little or nothing."""
    names = train.description.target_names
    for task, (y, measured) in enumerate(zip(train.y.numpy().T, train.measured.numpy().T, strict=True)):
        known = np.unique(measured[~np.isnan(measured)])
        bounds = (np.isnan(measured) & ~np.isnan(y)).any()
        if not len(known) and bounds:
            what = "all values of training graphs are bounds: what is predicted of it follows from them alone"
        elif not len(known):
            what = "no training graph has a value of it, so that what is predicted of it means nothing"
        elif len(known) == 1 and not bounds and train.task == "regression":
            what = f"all training graphs have {known[0]:g}: nothing is learned"
        else:
            continue
        log.warning(f"target {names[task] if names else task}: {what}")


def check_loss(data: PackedGraphs, loss: str) -> None:
    """Refuse bounds among the targets of a loss that does not learn from them."""
    if loss == "quantile" and data.censored is not None:
        raise ValueError(
            f"{int((data.censored != 0).sum()):,} targets are bounds (censored), from which loss='quantile' "
            "does not learn: take loss='squared' or 'mve'"
        )


def _resampler(train: PackedGraphs, options: FitOptions) -> BucketResampler | None:
    if not options.bucket_width:
        return None
    return BucketResampler(train.measured.numpy(), width=options.bucket_width, seed=options.seed)
