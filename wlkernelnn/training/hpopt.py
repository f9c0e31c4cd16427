"""A search for options by the validation part alone, with Optuna (Akiba et al. 2019), kept in a file."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import pytorch_lightning as pl
import torch
from optuna import Study, Trial, TrialPruned
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState
from pytorch_lightning.callbacks import Callback

from wlkernelnn.training.processes import Pool, follow_parent

logger = logging.getLogger("wlkernelnn")

#: Values to choose from, or the bounds (and ``step`` or ``log``) of a number.
Range = list[Any] | dict[str, Any]
#: The score of a trial by the validation part; its options are ``trial.params``.
Objective = Callable[[Trial], float]

_NAME = "wlkernelnn"
_PRUNED_AFTER = 5  # complete trials


class Outcome(NamedTuple):
    """How a trial ended."""

    state: TrialState
    value: float | None = None
    reason: str = ""


class Pruning(Callback):
    """Ends the training of a trial whose best validation score is worse than the median at that epoch."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.epochs = trial, 0

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.epochs += 1
        self.trial.report(float(trainer.callback_metrics[f"valid_{pl_module.metric}"]), self.epochs)
        if self.trial.should_prune():
            raise TrialPruned(f"worse than the median after epoch {self.epochs}")


def open_study(
    path: Path, *, maximize: bool, epochs: int, first: Mapping[str, Any], about: Mapping[str, Any]
) -> Study:
    """The study in a file of JSON lines, or a new one.

    Args:
        path: The file.
        maximize: Whether larger scores are better.
        epochs: Of a training; none is pruned in the first quarter.
        first: Options of trial 0.
        about: What a study to resume must be of.

    Raises:
        ValueError: The file is not a study's, or of something else.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.MedianPruner(_PRUNED_AFTER, n_warmup_steps=epochs // 4 + 1)
    _whole_lines(path)
    try:
        storage = JournalStorage(JournalFileBackend(str(path)))
        study = optuna.create_study(
            storage=storage,
            study_name=_NAME,
            direction="maximize" if maximize else "minimize",
            pruner=pruner,
            load_if_exists=True,
        )
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path}: not a study ({type(error).__name__}: {error})") from error
    about = json.loads(json.dumps(about))  # as it comes from a file
    for name, value in about.items():
        there = study.user_attrs.get(name, value)
        if there != value:
            raise ValueError(f"{path}: the study to resume has {name} {there}, and this is {value}")
        study.set_user_attr(name, value)
    if not study.trials:
        study.enqueue_trial(dict(first))
    return study


def search(
    study: Study,
    objective: Objective,
    ranges: Mapping[str, Range],
    *,
    path: Path,
    trials: int,
    workers: int = 1,
    seed: int = 0,
) -> None:
    """Run trials until the study has so many; those that were interrupted are run again.

    With one worker, the same seed gives the same trials, interrupted or not. More than one know less of each
    other's results, and their order is that in which they end.

    Args:
        study: From :func:`open_study`.
        objective: Scores a trial; can be pickled.
        ranges: What is searched, by the names of options.
        path: The file of the study.
        trials: How many in all.
        workers: Processes; 1 is this one.
        seed: Of what is drawn.

    Raises:
        ChildProcessError: A process died.
        ValueError: No trial has a score.
    """
    distributions = {name: _distribution(range_) for name, range_ in ranges.items()}
    _repeat_interrupted(study, distributions)
    running: dict[Future[Outcome], Trial] = {}
    with _Here(objective, study) if workers == 1 else _pool(workers, objective, study, path) as pool:
        while True:
            while len(running) < workers and (begun := len(_counted(study))) < trials:
                study.sampler = optuna.samplers.TPESampler(seed=seed + begun)
                trial = study.ask(distributions)
                running[pool.submit(_work, trial._trial_id)] = trial
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                _tell(study, running.pop(future), _result(future), trials)
    if not study.get_trials(states=[TrialState.COMPLETE]):
        raise ValueError(f"no trial has a score; the first: {first_trial(study).user_attrs['reason']}")


def first_trial(study: Study) -> FrozenTrial:
    """The trial of the options that a search begins with."""
    return _counted(study)[0]


def _tell(study: Study, trial: Trial, outcome: Outcome, trials: int) -> None:
    if outcome.reason:
        trial.set_user_attr("reason", outcome.reason)
    study.tell(trial, outcome.value, outcome.state)
    told = outcome.reason if outcome.value is None else f"{outcome.value:.4g}"
    if done := study.get_trials(deepcopy=False, states=[TrialState.COMPLETE]):
        told += f" (best {study.best_value:.4g}, trial {study.best_trial.number})" if len(done) > 1 else ""
    ended = sum(one.state.is_finished() for one in _counted(study))
    options = ", ".join(f"{name} {_shown(value)}" for name, value in trial.params.items())
    logger.info(f"trial {trial.number}, {ended} of {trials}: {told}; {options}")


def _shown(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _counted(study: Study) -> list[FrozenTrial]:
    """Trials that were begun; a repeated one stands where the one that was interrupted did."""
    all_trials = study.get_trials(deepcopy=False)
    again = {trial.user_attrs.get("again") for trial in all_trials}
    begun = [one for one in all_trials if one.state != TrialState.WAITING and one.number not in again]
    return sorted(begun, key=lambda one: one.user_attrs.get("place", one.number))


def _repeat_interrupted(study: Study, distributions: Mapping[str, BaseDistribution]) -> None:
    again = {trial.user_attrs.get("again") for trial in study.trials}
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        if trial.number not in again:
            # Options are drawn one after the other: with some of them fixed, the others would be other ones.
            drawn = trial.params if trial.params.keys() >= distributions.keys() else {}
            options = {**trial.system_attrs.get("fixed_params", {}), **drawn}
            place = trial.user_attrs.get("place", trial.number)
            study.enqueue_trial(options, user_attrs={"again": trial.number, "place": place})
        Trial(study, trial._trial_id).set_user_attr("reason", "interrupted")
        study.tell(trial.number, state=TrialState.FAIL)


def _distribution(range_: Range) -> BaseDistribution:
    if isinstance(range_, list):
        return CategoricalDistribution(range_)
    return (IntDistribution if isinstance(range_["low"], int) else FloatDistribution)(**range_)


def _whole_lines(path: Path) -> None:
    """Remove a last line that a killed process did not end, and its lock."""
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    if path.exists() and not (content := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)


# Trials in this process, or in others


def _tried(objective: Objective, trial: Trial) -> Outcome:
    """Score a trial; what its options cannot do is said, and ends no search."""
    try:
        value = objective(trial)
    except TrialPruned as error:
        return Outcome(TrialState.PRUNED, reason=str(error))
    except (ValueError, torch.OutOfMemoryError) as error:
        return Outcome(TrialState.FAIL, reason=str(error))
    if not math.isfinite(value):
        return Outcome(TrialState.FAIL, reason=f"the validation score is {value}")
    return Outcome(TrialState.COMPLETE, value)


class _Here(Executor):
    """Does the work in this process."""

    def __init__(self, objective: Objective, study: Study) -> None:
        _begin(objective, study)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _pool(workers: int, objective: Objective, study: Study, path: Path) -> Executor:
    threads = max(1, torch.get_num_threads() // workers)
    return Pool(workers, _start, objective, path, study.pruner, threads)


def _result(future: Future[Outcome]) -> Outcome:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a process of the search died; if it was memory that ran out, take fewer workers (resume goes on)"
        ) from error


_work_of: tuple[Objective, Study]


def _begin(objective: Objective, study: Study) -> None:
    global _work_of
    _work_of = objective, study


def _start(objective: Objective, path: Path, pruner: optuna.pruners.BasePruner, threads: int) -> None:
    """Prepare another process."""
    follow_parent()
    torch.set_num_threads(threads)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = JournalStorage(JournalFileBackend(str(path)))
    sampler = optuna.samplers.RandomSampler()  # all options are drawn in the first process
    _begin(objective, optuna.load_study(study_name=_NAME, storage=storage, sampler=sampler, pruner=pruner))


def _work(trial_id: int) -> Outcome:
    objective, study = _work_of
    return _tried(objective, Trial(study, trial_id))
