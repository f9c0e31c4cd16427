"""Train the networks of a run folder, and say how well they do."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pytorch_lightning.callbacks import Callback

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.machines.parts import about_data, names_of
from wlkernelnn.models import NETWORKS, GraphNetwork
from wlkernelnn.models.base.outputs import outputs_of
from wlkernelnn.training.folder import (
    REPORT,
    begin_run,
    finished_folders,
    seconds_of,
    train_networks,
    with_seeds,
)
from wlkernelnn.training.loggers import check_logger, make_logger
from wlkernelnn.training.options import FitOptions
from wlkernelnn.utils.checks import plain
from wlkernelnn.utils.files import alone_in

from .ensemble import Ensemble, load_ensemble
from .fitting import check_fit, check_loss, fit
from .metrics import get_metric
from .prediction import predict
from .recalibration import FILE as RECALIBRATION
from .recalibration import LEAST_VALUES, NOTE
from .scoring import check_target_names, parts_of, rows_of, scored

log = logging.getLogger("wlkernelnn")


def train_run(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    options: FitOptions | None = None,
    *,
    kind: str = "GraphKernelNetwork",
    network: dict[str, Any] | None = None,
    ensemble_size: int = 1,
    resume: bool = False,
    progress: bool = True,
    logger: str | None = None,
    callbacks: Sequence[Callback] = (),
) -> tuple[Ensemble, dict[str, Any]]:
    """Train networks that differ in their seeds, keep them in a folder, and score them.

    The folder then holds ``model_<i>`` for each network (weights, config, ``history.csv``), ``splits.json``
    (input rows of each part, counted from 0), ``train_predictions.csv``, ``valid_predictions.csv`` and
    ``test_predictions.csv`` (rows counted from 1, as in messages; those of training without SMILES),
    ``metrics.json``, ``origin.json`` (what a run to resume is of) and, of
    numbers with at least 10 validation molecules, ``recalibration.json`` (see :class:`Recalibration`).

    Args:
        data: The whole data set, with targets.
        split_idx: Positions in ``data`` of ``"train"``, and any of ``"valid"`` and ``"test"``.
        directory: The run folder.
        options: How to train; network i takes ``options.seed + i``.
        kind: The class of the networks, of :data:`~wlkernelnn.models.NETWORKS`.
        network: Arguments of that class.
        ensemble_size: Number of networks; one that is resumed may have more or fewer than before.
        resume: Keep the networks that are finished and go on with the one that was interrupted.
        progress: Show a progress bar.
        logger: "csv", "tensorboard", "wandb" or "mlflow": which of Lightning's loggers keeps the scores of
            every epoch, in ``logs`` of the folder.
        callbacks: Callbacks of Lightning, for every network.

    Returns:
        The ensemble and the content of ``metrics.json``: the scores of the parts, of several targets the
        means of those that can be scored and, in ``targets``, each.

    Raises:
        ValueError: Options that :func:`ensemble_options` refuses, an unknown ``kind``, a split without a
            training part, with an unknown one or with graphs in two parts, names of targets that columns of
            predictions could not be told by, other data, split, network or options than the run to resume
            has or nothing that says what these were, or the data don't fit the options.
        FileExistsError: The folder holds a run already, and ``resume`` is off; or another process trains
            there.
        NotADirectoryError: ``directory`` is a file.
    """
    directory, options = Path(directory), options or FitOptions()
    check_logger(logger)
    network = {name: plain(value) for name, value in (network or {}).items()}
    seeded = ensemble_options(options, ensemble_size)
    if kind not in NETWORKS:
        raise ValueError(f"kind: expected {' or '.join(NETWORKS)}, got {kind!r}")
    parts = parts_of(data, split_idx)
    task = data.task or "regression"
    check_loss(data, network.get("loss", "squared"))
    number = len(data.classes) if task in SEVERAL_CLASSES else data.num_tasks
    outputs = outputs_of(task, number, network.get("loss", "squared"), network.get("quantiles"))
    check_target_names(names_of(data), data.classes, outputs.quantiles)
    metric = check_fit(parts["train"], parts.get("valid"), task, options)
    about = about_data(data) | {"metric": metric}
    with alone_in(directory):
        begin_run(
            directory,
            rows_of(parts),
            data=data.digest(),
            kind=kind,
            network=network,
            options=options,
            ensemble_size=len(seeded),
            resume=resume,
        )
        for name in (REPORT, RECALIBRATION):
            (directory / name).unlink(missing_ok=True)  # of other networks
        train_networks(
            directory,
            seeded,
            lambda: NETWORKS[kind].from_data(parts["train"], **network),
            lambda net, own, **where: fit(
                net,
                parts["train"],
                parts.get("valid"),
                own,
                progress=progress,
                callbacks=callbacks,
                logger=make_logger(logger, directory, where["directory"].parent.name),
                **where,
            ),
            about,
            resume=resume,
        )
        ensemble = load_ensemble(directory)
        for i, net in enumerate(ensemble.networks):
            if _says_one_thing(net, parts["train"]):
                log.warning(
                    f"network {i} predicts the same of all training graphs, though their targets differ: its "
                    "units are 0 for all of them, or it learned nothing; take a smaller lr or another seed"
                )
        if "valid" in parts:
            ensemble.recalibrate(parts["valid"])
        if ensemble.recalibration is not None:
            ensemble.recalibration.save(directory)
            if without := ensemble.recalibration.without(ensemble.about["target_names"]):
                log.warning(without)
        elif task == "regression" and ("valid" in parts or ensemble.has_distributions):
            own = ensemble.has_distributions
            log.log(
                logging.WARNING if own else logging.INFO,
                f"predictions will have {'the deviations that networks learn' if own else 'no deviations'} "
                f"of new measurements: {len(parts.get('valid', ()))} validation molecules, and at least "
                f"{LEAST_VALUES} with a target are needed to fit them",
            )
        more: dict[str, Any] = {NOTE: ensemble.recalibration is not None}
        return ensemble, scored(directory, ensemble, parts, seconds_of(finished_folders(directory)), **more)


def _says_one_thing(net: GraphNetwork, train: PackedGraphs) -> bool:
    """Whether a network makes no difference between graphs with other targets (the first 256 tell)."""
    some = train[: min(len(train), 256)]
    target = some.measured.numpy()
    target = target[:, ~np.isnan(target).all(axis=0)]
    if not (np.nanmax(target, axis=0) > np.nanmin(target, axis=0)).any():
        return False
    unit = net.target_std.cpu().numpy() if net.task == "regression" else 1.0
    return bool((np.ptp(predict(net, some) / unit, axis=0) < 1e-6).all())


def ensemble_options(options: FitOptions, ensemble_size: int) -> list[FitOptions]:
    """Options of every network of an ensemble, with a seed each; what needs no data is checked.

    Raises:
        ValueError: ``ensemble_size`` < 1, seeds beyond those that there are, an unknown metric, or an
            accelerator that this machine lacks.
    """
    if options.metric is not None:
        get_metric(options.metric)
    return with_seeds(options, ensemble_size)
