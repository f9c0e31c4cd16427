"""Fit the machine of a run folder, alone or with networks, and say how well it does."""

from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from wlkernelnn.datasets import PackedGraphs, cv_folds, split_groups
from wlkernelnn.machines import LinearMachine, MoleculeMachine, save_machine
from wlkernelnn.machines.molecules import MODELS
from wlkernelnn.machines.parts import FEATURES, check_columns, check_targets, constant_targets
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training.folder import MACHINE_FILES, REPORT, check_free, write_splits
from wlkernelnn.training.options import FitOptions
from wlkernelnn.utils.checks import check_one_of
from wlkernelnn.utils.files import alone_in

from .ensemble import Ensemble
from .joint import MACHINE, NETWORKS, JointModel, best_share, joined, save_joint
from .metrics import get_metric, score
from .run import train_run
from .scoring import check_target_names, parts_of, rows_of, scored

#: Machines by the names that users give them.
MACHINES = (*MODELS, "linear")
Machine = MoleculeMachine | LinearMachine
#: Joint models: a machine and a kind of network.
JOINT = tuple(f"{machine}+{network}" for machine in ("gp", "linear") for network in SHORT_NAMES)
#: Parts of the training molecules, each predicted by what was fitted to the others.
FOLDS = 5

log = logging.getLogger("wlkernelnn")


def machine_named(model: str, seed: int) -> Machine:
    """An unfitted machine, of :data:`MACHINES`."""
    return (
        LinearMachine(random_state=seed) if model == "linear" else MoleculeMachine(model, random_state=seed)
    )


def left_out_score(prediction: np.ndarray, metric: str, y: np.ndarray) -> float:
    """The score of predictions of training molecules by what was fitted to others; some may be NaN."""
    return score(metric, np.where(np.isnan(prediction[:, : y.shape[1]]), np.nan, y), prediction)


def features_for(model: str, features: str | None) -> str:
    """The features of molecules for a model, by default those that its machine, or its network, needs.

    Raises:
        ValueError: A kernel machine lacks a column in them.
    """
    if model.partition("+")[0] not in MODELS:
        return features or "ogb"
    features = features or FEATURES
    check_columns(features)
    return features


def train_machine(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    *,
    model: str = "auto",
    metric: str | None = None,
    seed: int = 0,
) -> tuple[Machine, dict[str, Any]]:
    """Fit a machine to the training part, keep it in a folder, and score it.

    The folder then holds ``config.json``, ``model.safetensors``, of a kernel machine
    ``molecules.safetensors`` (the training molecules with their targets), ``README`` (what of the training
    molecules is there), ``splits.json``, ``train_predictions.csv`` (by leave-one-out),
    ``valid_predictions.csv``, ``test_predictions.csv`` and ``metrics.json``, as a run of networks does: see
    :func:`train_run`.

    Args:
        data, split_idx, directory: See :func:`train_run`. The validation part is scored only.
        model: ``"auto"`` and ``"gp"`` of :class:`~wlkernelnn.machines.MoleculeMachine`, or ``"linear"``, a
            :class:`~wlkernelnn.machines.LinearMachine`.
        metric: In which it is scored; default the data set's own.
        seed: Of what is drawn.

    Returns:
        The machine and the content of ``metrics.json``, with the score of the training part's leave-one-out
        predictions.

    Raises:
        ValueError: A split as :func:`train_run` refuses it, an unknown metric, or data that
            the machine's ``fit`` refuses.
        FileExistsError, NotADirectoryError: As :func:`train_run`.
    """
    directory, parts = Path(directory), parts_of(data, split_idx)
    check_target_names(data.description.target_names, data.classes)
    if metric is not None:
        get_metric(metric, data.task or "regression")
    with alone_in(directory):
        check_free(directory, *MACHINE_FILES, REPORT)
        write_splits(directory, rows_of(parts))
        begin = time.perf_counter()
        machine = machine_named(model, seed).fit(parts["train"])
        seconds = time.perf_counter() - begin
        if metric is not None:
            machine.about["metric"] = metric
        left_out = machine.leave_one_out()
        left = left_out_score(left_out, machine.about["metric"], parts["train"].measured.numpy())
        save_machine(directory, machine)
        chosen = machine.num_iterations_ if isinstance(machine, LinearMachine) else machine.choice_
        more = {"leave_one_out": left, "choice": chosen, "errors": machine.errors_}
        return machine, scored(directory, machine, parts, seconds, left_out, **more)


def train_joint(
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: str | os.PathLike[str],
    options: FitOptions | None = None,
    *,
    model: str = "gp+wl",
    network: dict[str, Any] | None = None,
    ensemble_size: int = 1,
    resume: bool = False,
    progress: bool = True,
    logger: str | None = None,
) -> tuple[JointModel, dict[str, Any]]:
    """Fit a machine and networks to the training part, weigh them, keep both in a folder, and score them.

    Five times both are fitted to four fifths of the training molecules, and predict the others
    (replicates of a molecule are on one side); that decides the weights, see :class:`JointModel`. Then
    both are fitted to all of them: this trains six times as many networks as ``ensemble_size``. Networks
    train to their last epoch: the validation part is scored only.

    The folder then holds ``joint.json`` (the weights), ``machine`` and ``networks`` (run folders of both),
    ``splits.json``, ``train_predictions.csv`` (of folds left out), ``valid_predictions.csv``,
    ``test_predictions.csv`` and ``metrics.json``.

    Args:
        data, split_idx, directory, options, network, ensemble_size, progress: See :func:`train_run`.
        model: One of :data:`JOINT`.
        resume: Keep the networks that are finished and go on with the one that was interrupted.
        logger: As of :func:`train_run`; not of the folds.

    Returns:
        The model and the content of ``metrics.json``, with the score of the training molecules left out, of
        both parts and of both together.

    Raises:
        ValueError: As :func:`train_machine` and :func:`train_run`, or an unknown model.
        FileExistsError, NotADirectoryError: As :func:`train_run`.
    """
    check_one_of("model", model, JOINT)
    directory, options, begin = Path(directory), options or FitOptions(), time.perf_counter()
    check_joint(model, (network or {}).get("loss", "squared"), options.patience)
    machine_name, _, network_name = model.partition("+")
    check_target_names(data.description.target_names, data.classes)
    parts = parts_of(data, split_idx)
    train, every = parts["train"], np.asarray(split_idx["train"])
    check_targets(train)
    if options.metric is not None:
        get_metric(options.metric, data.task or "regression")

    def fitted(rows: np.ndarray, folder: Path, logger: str | None = None) -> tuple[Machine, Ensemble]:
        # The machine first: it takes seconds, and refuses what it cannot do.
        machine = machine_named(machine_name, options.seed).fit(train[rows])
        ensemble, _ = train_run(
            data,
            {"train": every[rows]},
            folder,
            options,
            kind=SHORT_NAMES[network_name].__name__,
            network=network,
            ensemble_size=ensemble_size,
            resume=resume,
            progress=progress,
            logger=logger,
        )
        return machine, ensemble

    with alone_in(directory):
        if not resume or (directory / REPORT).is_file():
            check_free(directory)
        y = train.measured.numpy()
        task = data.task or "regression"
        outputs = len(data.classes) if task == "multiclass" else y.shape[1]
        one, other, std = (np.full((len(y), outputs), np.nan) for _ in range(3))
        folds = min(FOLDS, len(np.unique(split_groups(train))))
        if folds < 2:
            raise ValueError(f"a joint model needs at least 2 molecules that differ, got {len(train)} of one")
        (fold_of,) = cv_folds(train, folds, seed=options.seed)
        for k in range(folds):  # before networks are trained
            try:
                constant_targets(train[np.flatnonzero(fold_of != k)], machine_name in MODELS)
            except ValueError as error:
                raise ValueError(f"without fold {k + 1} of {folds}: {error}") from error
        for k in range(folds):
            fold = np.flatnonzero(fold_of == k)
            log.info(f"fold {k + 1} of {folds}")
            others = np.setdiff1d(np.arange(len(y)), fold)
            try:
                machine, ensemble = fitted(others, directory / "folds" / str(k))
            except ValueError as error:
                raise ValueError(f"without fold {k + 1} of {folds}: {error}") from error
            other[fold] = ensemble.predict(train[fold])[0]
            one[fold] = machine.predict(train[fold])
            if task == "regression":
                std[fold] = machine.predict(train[fold], return_std=True)[1]
        share = best_share(y, one, other, task)
        both = joined(one, other, share, task)
        inflation = np.ones(len(share)) if task != "regression" else _inflation(y - both, std)
        result = JointModel(*fitted(np.arange(len(y)), directory / NETWORKS, logger), share, inflation)
        if options.metric is not None:
            result.about["metric"] = options.metric
        write_splits(directory, rows_of(parts))
        save_joint(directory, result)
        metric = result.about["metric"]
        scores = {name: score(metric, y, each) for name, each in ((MACHINE, one), (NETWORKS, other))}
        shares = ", ".join(f"{each:.2f}" for each in share)
        log.info(
            f"molecules left out: {metric} {scores[MACHINE]:.4g} of the machine, {scores[NETWORKS]:.4g} "
            f"of the networks; share of the networks {shares}"
        )
        left = {"left_out": score(metric, y, both), "left_out_parts": scores, "share": share.tolist()}
        report = scored(directory, result, parts, time.perf_counter() - begin, both, **left)
        shutil.rmtree(directory / "folds")  # last: until here a run resumes
        return result, report


def check_joint(model: str, loss: str, patience: int) -> None:
    """Refuse a loss that a joint model would make no use of, and patience."""
    if model in JOINT and loss != "squared":
        raise ValueError(
            f"loss {loss}: in the joint model {model} deviations are the machine's; take the networks wl or "
            "stack alone"
        )
    if model in JOINT and patience:
        raise ValueError(
            f"patience {patience}: networks of the joint model {model} that leave molecules out have no "
            "validation part; take the networks wl or stack alone"
        )


def _inflation(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """Root mean square of errors in units of deviations, which are 0 of a constant target, ``[T]``."""
    return np.asarray(np.sqrt(np.nanmean(np.divide(error, std, out=error * 0, where=std > 0) ** 2, axis=0)))
