"""Search for the options of a network that are best for a table of SMILES.

Options that are given, here or in a file for --config, stay as they are; the others that have ranges, such as
width, dropout and learning rate, are searched. Trial 0 has the defaults, so the best one is not worse. Trials
are scored on the validation part alone; the test part is never touched: "wlkernelnn train --config best.yaml"
scores it, once.
"""

from __future__ import annotations

import logging
import math
import shlex
import shutil
from argparse import Namespace
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .before import check_run_folder
from .data import DataOptions, SplitOptions, score_text
from .options import PositiveInt, VerbParser, add_options, config_text, how_to_go_on, pick
from .presets import PRESETS, RANGES
from .train import (
    GROUPS,
    MAY_DIFFER,
    NETWORKS,
    RunOptions,
    check_training,
    features_of,
    network_of,
    train_model,
)

if TYPE_CHECKING:
    import numpy as np
    from optuna import Study, Trial

    from wlkernelnn.datasets import PackedGraphs

# In the folder of a study.
BEST, TRIALS, PICTURE = "best.yaml", "trials.csv", "study.png"


@dataclass
class SearchOptions:
    """How to search, and where results go.

    Args:
        output_dir: Folder of the study: best.yaml (the best options, for "wlkernelnn train --config"),
            trials.csv, study.png, config.yaml, rejected rows, and study.jsonl, Optuna's journal.
        trials: Trainings in all, those of a study that is resumed included.
        workers: Processes, which share the cores. With one, the same seed gives the same search.
        resume: Go on with a study that was interrupted, or that shall have more trials; all other options as
            they were (--config takes the config.yaml of its folder).
    """

    output_dir: Path
    trials: PositiveInt = 20
    workers: PositiveInt = 1
    resume: bool = False


@dataclass
class Training:
    """Trains as ``wlkernelnn train`` does, without the test part; gives the score of the validation part."""

    parsed: Namespace
    data: PackedGraphs
    split_idx: dict[str, np.ndarray]
    folder: Path

    def __call__(self, trial: Trial) -> float:
        import numpy as np

        from wlkernelnn.training.hpopt import Pruning
        from wlkernelnn.training.molecules.fitting import chooses_in_deviations
        from wlkernelnn.training.molecules.metrics import comparable

        parsed = Namespace(**{**vars(self.parsed), **trial.params})
        directory = self.folder / str(trial.number)
        # Networks of a joint model see no validation part, and several processes would have to end together.
        pruned = parsed.model in NETWORKS and parsed.devices * parsed.num_nodes == 1
        more: dict[str, Any] = {"callbacks": [Pruning(trial)]} if pruned else {}
        logger = logging.getLogger("wlkernelnn")
        level = logger.level
        logger.setLevel(logging.ERROR)  # not every epoch of every trial
        try:
            _, report = train_model(parsed, self.data, self.split_idx, directory, progress=False, **more)
        finally:
            logger.setLevel(level)
            shutil.rmtree(directory, ignore_errors=True)
        if not chooses_in_deviations(self.data) or not math.isfinite(report["valid"]):
            return float(report["valid"])
        deviation = np.nanstd(self.data.measured.numpy()[self.split_idx["train"]], axis=0)
        scores = np.array([*report["targets"]["valid"].values()], dtype=float)
        of_all = comparable(report["metric"], scores, np.where(deviation > 0, deviation, 1.0))
        return float(np.nanmean(of_all))


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("hpopt", __doc__, presets=PRESETS)
    for title, source in GROUPS.items():
        if source is RunOptions:
            add_options(parser, "Search", SearchOptions)
            add_options(parser, "Model", RunOptions, ("model", "preset", "ensemble_size"))
        else:
            add_options(parser, title, source)
    parser.set_defaults(model="wl", logger=None)
    parsed = parser.parse_args(argv)
    options = SearchOptions(**pick(parsed, SearchOptions))
    data_options = DataOptions(**pick(parsed, DataOptions))
    split_options = SplitOptions(**pick(parsed, SplitOptions))
    split_options.check_seed()
    ranges = _ranges(parser, parsed)

    if find_spec("optuna") is None:
        raise ImportError("hpopt needs the package optuna: pip install optuna")
    from wlkernelnn.datasets import write_rejects
    from wlkernelnn.datasets.splits.parts import PARTS
    from wlkernelnn.training.folder import STUDY
    from wlkernelnn.training.hpopt import open_study, search
    from wlkernelnn.training.molecules.fitting import check_fit, chooses_in_deviations
    from wlkernelnn.training.molecules.metrics import IN_UNITS, get_metric
    from wlkernelnn.training.options import FitOptions
    from wlkernelnn.utils.files import alone_in, atomic_path, json_digest, write_text

    from .pictures import draw_study

    check_training(parser, parsed)
    directory, resume = options.output_dir, options.resume
    # Trials are compared: all are of as many networks.
    may_differ = [name for name in (*MAY_DIFFER, "trials", "workers") if name != "ensemble_size"]
    check_run_folder(parser, parsed, directory, may_differ, (BEST, TRIALS, PICTURE))
    path, folder = directory / STUDY, directory / "trials"
    data_options.features = features_of(parsed)
    with alone_in(directory):
        data = data_options.load(None if resume else directory / "rejects.csv", **split_options.of_table())
        split_idx, split_name = split_options.apply(data)
        if not len(split_idx.get("valid", ())):
            raise ValueError(
                f"the split {split_name} has no validation part, by which trials are scored: choose another "
                "with --split, --split-sizes or --splits-column"
            )
        kept = {part: split_idx[part] for part in PARTS if part in split_idx and part != "test"}
        train, valid = (data[kept[part]] for part in ("train", "valid"))
        rows = {part: kept[part].tolist() for part in kept}
        metric = check_fit(train, valid, data.task or "regression", FitOptions(**pick(parsed, FitOptions)))
        study = open_study(
            path,
            maximize=get_metric(metric).maximize,
            epochs=parsed.epochs,
            first={name: getattr(parsed, name) for name in ranges},
            about={"data": data.digest(), "parts": json_digest(rows), "metric": metric},
        )
        if resume:  # not before the data are seen to be those of the study
            write_rejects(directory / "rejects.csv", data.rejects)
        parsed.resume = False
        write_text(directory / "config.yaml", config_text(parsed))
        if "ranges" not in study.user_attrs:
            study.set_user_attr("ranges", ranges)
        shutil.rmtree(folder, ignore_errors=True)  # of a search that was killed
        objective = Training(parsed, data, kept, folder)
        try:
            search(
                study,
                objective,
                study.user_attrs["ranges"],
                path=path,
                trials=options.trials,
                workers=options.workers,
                seed=parsed.seed,
            )
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt(how_to_go_on(error, directory / "config.yaml")) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        best = Namespace(**{**vars(parsed), **study.best_params, "output_dir": directory / "best"})
        for name in ("trials", "workers"):
            delattr(best, name)
        write_text(directory / BEST, config_text(best))
        columns = ("number", "value", "state", "duration", "params", "user_attrs")
        with atomic_path(directory / TRIALS) as temporary:
            study.trials_dataframe(columns).to_csv(temporary, index=False)
        draw_study(directory / PICTURE, study, metric)
    in_deviations = metric in IN_UNITS and chooses_in_deviations(data)
    _show(study, metric, ", in deviations of the targets" if in_deviations else "", directory)


def _ranges(parser: VerbParser, parsed: Namespace) -> dict[str, Any]:
    """The ranges of the options that are searched.

    Raises:
        ValueError: There are none.
    """
    if isinstance(parsed.model, list):
        raise ValueError(f"--model: expected one model to search, got {' '.join(parsed.model)}")
    network = network_of(parsed.model)
    if not network:
        raise ValueError(
            f"--model {parsed.model} finds its numbers itself, there is nothing to search: train it, or "
            f"choose one of {', '.join(NETWORKS)} or a joint model"
        )
    ranges = {name: range_ for name, range_ in RANGES[network].items() if name not in parser.given}
    if not ranges and not parsed.resume:
        raise ValueError(f"all options that would be searched are given: {', '.join(RANGES[network])}")
    return ranges


def _show(study: Study, metric: str, unit: str, directory: Path) -> None:
    """Print how good the defaults and the best trial are, and what to do with it."""
    from wlkernelnn.training.hpopt import first_trial

    states = [trial.state.name.lower() for trial in study.trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
    print(f"{len(states)} trials: {counts}; scores are {metric} of the validation part{unit}")
    for title, trial in (("defaults", first_trial(study)), ("best", study.best_trial)):
        score = "no score" if trial.value is None else score_text(trial.value)
        print(f"{title}, trial {trial.number}: {score}")
    print(f"picture: {directory / PICTURE}")
    best = shlex.quote(str(directory / BEST))
    print(f"wlkernelnn train --config {best} trains with the best options and scores the test part")
