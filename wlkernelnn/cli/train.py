"""Train a model on a table of SMILES, and keep it in a run folder."""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from wlkernelnn.training.options import ON_MACHINES, FitOptions, ModelName

from .before import check_idle, check_run_folder
from .data import DataOptions, SplitOptions, score_text
from .options import PositiveInt, VerbParser, add_options, command_line, config_text, how_to_go_on, pick
from .presets import PRESETS, check_preset

if TYPE_CHECKING:
    import numpy as np

    from wlkernelnn.datasets import PackedGraphs


@dataclass
class CVOptions:
    """Repeated cross-validation, instead of one training; no model is kept.

    Args:
        cv: Number of folds: on each, models are scored that were trained on the others; networks keep a tenth
            of these for validation. Several models are compared on the same folds: --model gp wl. Groups
            of --split (scaffolds, clusters, replicates) stay in one fold; --data-seed deals them out.
        repeats: How often the folds are drawn anew.
    """

    cv: int | None = None
    repeats: PositiveInt = 1


@dataclass
class RunOptions:
    """What is trained, and where results go.

    Args:
        output_dir: The run folder: the model, predictions, metrics, config, rejected rows, report.html,
            a page that shows them, and README.md, a model card. That of a
            kernel machine holds the training molecules and their targets, that of a linear machine their
            substructures.
        model: "auto" and "gp" are a kernel machine, a Gaussian process on exact kernels of molecules and on
            their descriptors: exact, or with "auto" and more than 25,000 molecules on 4,096 landmarks.
            "linear" is ridge or logistic regression on counts of substructures, for 100,000 molecules and
            more. "wl" and "stack" are networks: a Weisfeiler-Lehman kernel layer, or deep kernel layers one
            upon another. "gp+wl", "gp+stack", "linear+wl" and "linear+stack" are a machine and networks,
            weighted by five-fold cross-validation, which trains six times as many networks.
        preset: Settings by one word: "fast" is the model linear, in seconds; "balanced" is auto, the default;
            "best" is gp+stack with settings for small and medium sets, which takes ten to a hundred times as
            long as auto. Any option but the model may be given beside it.
        ensemble_size: Networks to train, with seeds seed, seed + 1, …; they predict by their mean.
        resume: Go on with a training of networks that was interrupted; all other options as they were
            (--config takes the config.yaml of the run folder).
        logger: Of networks, the logger that keeps the scores of every epoch, in logs of the run folder:
            "csv", or "tensorboard", "wandb" or "mlflow" where the package of this name is installed.
    """

    output_dir: Path
    model: ModelName | list[ModelName] = "auto"
    preset: Literal["fast", "balanced", "best"] | None = None
    ensemble_size: int = 1
    resume: bool = False
    logger: Literal["csv", "tensorboard", "wandb", "mlflow"] | None = None


@dataclass
class NetworkOptions:
    """What all networks have.

    Args:
        hidden_channels: Width of the network: numbers per atom, per layer and per molecule.
        walk_length: Number of nodes of a walk: 2 is one edge.
        decay: λ, the factor of every edge of a walk: a number from 0 to 1, "learned", or "gated" (computed
            from the edge and its two nodes).
        pooling: The "sum" or "mean" over the atoms of a molecule. Where a norm follows they hardly differ: it
            takes the length of the vector away.
        norm: Layer normalisation of a molecule's vector before the head.
        dropout: Probability that a hidden value of the head is dropped.
        loss: Of numbers: "squared" errors; "mve", the likelihood of a normal distribution whose mean and
            deviation are both predicted; or "quantile", the pinball loss of several quantiles (the
            median is the prediction).
        quantiles: Levels of "quantile", rising and with 0.5; by default 0.05 0.5 0.95.
    """

    hidden_channels: int = 176
    walk_length: int = 2
    decay: float | str = "gated"
    pooling: Literal["sum", "mean"] = "sum"
    norm: bool = True
    dropout: float = 0.0
    loss: Literal["squared", "mve", "quantile"] = "squared"
    quantiles: list[float] | None = None


@dataclass
class WLOptions:
    """What the network "wl" alone has.

    Args:
        num_iterations: Weisfeiler-Lehman iterations: with walks of 2 nodes, an atom sees that many bonds far.
        readout: What is read of the iterations: their "sum", the "last" one, or "cat" (side by side;
            hidden_channels must be divisible by num_iterations).
        share_walk_weights: One set of walk weights and gates for all iterations instead of one each.
        all_lengths: Count walks of up to walk_length nodes, so that single atoms count, not only those of
            exactly walk_length.
        gate_scale: Factor of a gated decay; the authors' release uses 10.
    """

    num_iterations: int = 4
    readout: Literal["sum", "last", "cat"] = "last"
    share_walk_weights: bool = True
    all_lengths: bool = True
    gate_scale: float = 1.0


@dataclass
class StackOptions:
    """What the network "stack" alone has.

    Args:
        num_layers: Number of layers: with walks of 2 nodes, an atom sees that many bonds far.
        compose: How an atom's own features join a walk, "mul" or "add".
        jumping: What is read of the layers: the "last" states, the "sum" of all, or all side by side, "cat".
        virtual_node: Between layers, all atoms of a molecule hear from each other. Every atom is then
            computed, not every colour once.
        layer_dropout: Probability that an entry of a layer's result is dropped; of a colour, not of an atom,
            where colours are computed once.
    """

    num_layers: int = 4
    compose: Literal["mul", "add"] = "mul"
    jumping: Literal["last", "sum", "cat"] = "cat"
    virtual_node: bool = False
    layer_dropout: float = 0.0


OWN_OPTIONS: dict[str, type] = {"wl": WLOptions, "stack": StackOptions}
NETWORKS: tuple[str, ...] = tuple(OWN_OPTIONS)
GROUPS: dict[str, type] = {
    "Data": DataOptions,
    "Split": SplitOptions,
    "Run": RunOptions,
    "Network": NetworkOptions,
    **{f"Network {name}": own for name, own in OWN_OPTIONS.items()},
    "Training": FitOptions,
}
# Options of schedules alone.
OF_SCHEDULES = {
    "lr_min": ("cosine", "exponential"),
    "lr_decay": ("exponential",),
    "lr_decay_samples": ("exponential",),
}
# Scores that are printed beside the metric.
_BESIDE = {"multiclass": ("accuracy",), "ordinal": ("mae", "quadratic_kappa", "accuracy")}
# Options that may change when a run resumes: they change no network (of data, the content is compared).
MAY_DIFFER = (
    *ON_MACHINES,
    *("output_dir", "data_path", "ensemble_size", "resume", "num_workers", "root", "cache", "logger"),
)


def main(argv: list[str] | None = None) -> None:
    parser = VerbParser("train", __doc__, presets=PRESETS)
    for title, source in GROUPS.items():
        add_options(parser, title, source)
    add_options(parser, "Cross-validation", CVOptions)
    parser.add_argument("--network", dest="model", help=SUPPRESS)  # its name until there were machines
    parser.add_argument("--loss-function", dest="loss", help=SUPPRESS)  # chemprop's name
    parsed = parser.parse_args(argv)
    data_options = DataOptions(**pick(parsed, DataOptions))
    split_options = SplitOptions(**pick(parsed, SplitOptions))
    run_options = RunOptions(**pick(parsed, RunOptions))

    # Help does not wait for torch.
    from wlkernelnn.datasets import write_rejects
    from wlkernelnn.datasets.files.rejects import CHANGES, write_changes
    from wlkernelnn.report import CARD, PAGE, tried, write_model_card, write_run_page
    from wlkernelnn.training.folder import check_same_data
    from wlkernelnn.training.processes import dismiss, follow
    from wlkernelnn.utils.files import alone_in, write_text

    from .pictures import PICTURE, draw_run

    check_training(parser, parsed, several=parsed.cv is not None)
    if parsed.cv is None and parsed.repeats != 1:
        raise ValueError("--repeats is an option of --cv")
    fit_options = FitOptions(**pick(parsed, FitOptions))
    if follow(fit_options):
        return
    if parsed.cv is not None:
        models = _models_of(parsed)
        networks = [name for name in models if name in NETWORKS]
        # By its name, as verbs are imported: it stands on this room.
        verb = import_module("wlkernelnn.cli.crossval.verb")
        verb.cross_validation(parser, parsed, models, networks, features_of, train_model, MAY_DIFFER)
        dismiss(fit_options)
        return
    split_options.check_seed()
    directory = run_options.output_dir
    check_run_folder(parser, parsed, directory, MAY_DIFFER)
    data_options.features = features_of(parsed)
    config_path = directory / "config.yaml"
    with alone_in(directory):
        rejects_path, again = directory / "rejects.csv", run_options.resume
        data = data_options.load(None if again else rejects_path, **split_options.of_table())
        if again:
            check_same_data(directory, data.digest())
            write_rejects(rejects_path, data.rejects)
        if data.changes:
            write_changes(directory / CHANGES, data.changes)
        split_idx, split_name = split_options.apply(data)
        parsed.resume = False  # the file says what the run is, not how it came about
        write_text(config_path, config_text(parsed))
        try:
            model, report = train_model(parsed, data, split_idx, directory, again)
        except (KeyboardInterrupt, ChildProcessError) as error:
            if not network_of(parsed.model):
                raise
            raise type(error)(how_to_go_on(error, config_path)) from None
        picture = tried(lambda: draw_run(directory, model.about, report), f"no {PICTURE}")
        told = {"split_name": split_name, "command": command_line(parser, parsed)}
        config = config_text(parsed)
        page = tried(
            lambda: write_run_page(directory, model, data, split_idx, report, config=config, **told),
            f"no {PAGE}",
        )
        tried(lambda: write_model_card(directory, model, data, report, **told), f"no {CARD}")
    dismiss(fit_options)
    _show(data, split_name, directory, report)
    if picture is not None:
        print(f"picture of the test part: {picture}")
    if page is not None:
        print(f"report: {page}")


def check_training(parser: VerbParser, parsed: Namespace, several: bool = False) -> None:
    """Refuse what can be refused before data are read; ``several`` models may be compared."""
    from wlkernelnn.models import SHORT_NAMES
    from wlkernelnn.training.loggers import check_logger
    from wlkernelnn.training.molecules.machine import check_joint
    from wlkernelnn.training.molecules.run import ensemble_options

    check_preset(parsed.preset, parsed.model)
    check_logger(parsed.logger)
    ensemble_options(FitOptions(**pick(parsed, FitOptions)), parsed.ensemble_size)
    _check_idle(parser, parsed)
    for model in (models := _models_of(parsed)):
        if name := network_of(model):
            SHORT_NAMES[name].check_arguments(**_network_options(parsed, name))
            check_joint(model, parsed.loss, parsed.patience)
        features_of(Namespace(**{**vars(parsed), "model": model}))
    if len(models) > 1 and not several:
        raise ValueError(
            f"--model: several models are compared by train --cv, and here are {', '.join(models)}"
        )
    if len({*models}) < len(models):
        raise ValueError(f"--model: expected different models, got {', '.join(models)}")


def features_of(parsed: Namespace) -> str | None:
    """The features of molecules: those given, or those that the machine in the model needs."""
    from wlkernelnn.training.molecules.machine import features_for

    return parsed.features if parsed.model in NETWORKS else features_for(parsed.model, parsed.features)


def train_model(
    parsed: Namespace,
    data: PackedGraphs,
    split_idx: dict[str, np.ndarray],
    directory: Path,
    resume: bool = False,
    **more: Any,
) -> tuple[Any, dict[str, Any]]:
    """Train the model that the options name, keep it in a folder, and score it; ``more`` is of networks."""
    from wlkernelnn.models import SHORT_NAMES
    from wlkernelnn.training.molecules.machine import train_joint, train_machine
    from wlkernelnn.training.molecules.run import train_run

    name = network_of(parsed.model)
    if not name:
        options = {option: getattr(parsed, option) for option in ("model", "metric", "seed")}
        return train_machine(data, split_idx, directory, **options)
    train: Callable[..., tuple[Any, dict[str, Any]]] = partial(train_run, kind=SHORT_NAMES[name].__name__)
    if parsed.model not in NETWORKS:
        train = partial(train_joint, model=parsed.model)
    return train(
        data,
        split_idx,
        directory,
        FitOptions(**pick(parsed, FitOptions)),
        network=_network_options(parsed, name),
        ensemble_size=parsed.ensemble_size,
        resume=resume,
        logger=parsed.logger,
        **more,
    )


def _network_options(parsed: Namespace, name: str) -> dict[str, Any]:
    return pick(parsed, NetworkOptions) | pick(parsed, OWN_OPTIONS[name])


def _show(data: PackedGraphs, split_name: str, directory: Path, report: dict[str, Any]) -> None:
    """Print the scores, and where everything is."""
    from rich.console import Console
    from rich.table import Column, Table

    from wlkernelnn.datasets.files.rejects import CHANGES, counted

    unit = f", {data.description.unit}" if data.description.unit else ""
    print(f"{data.description.name}: {report['metric']}{unit} (split: {split_name})")
    more = [name for name in _BESIDE.get(data.task or "", ()) if name != report["metric"]]
    table = Table("part", *(Column(name, justify="right") for name in ("molecules", report["metric"], *more)))
    for part, count in report["counts"].items():
        scores, found, title = report["scores"][part]["mean"], report.get(part), part
        if part == "train":
            left = report.get("leave_one_out", report.get("left_out"))
            found = scores.get(report["metric"]) if left is None else left
            title = f"train, {report['train_predictions']}"
        others = [score_text(scores[name]) for name in more]
        table.add_row(title, f"{count:,}", "" if found is None else score_text(found), *others)
    Console().print(table)
    if data.rejects:
        print(f"{len(data.rejects):,} rows were rejected, see {directory / 'rejects.csv'}")
    if data.changes:
        print(f"{counted(data.changes, len(data))}, see {directory / CHANGES}")
    print(
        f"{report['parameters']:,} parameters, trained in {report['seconds']:.0f} s; run folder: {directory}"
    )


def _models_of(parsed: Namespace) -> list[str]:
    return parsed.model if isinstance(parsed.model, list) else [parsed.model]


def network_of(model: str) -> str:
    """The network in a model, or nothing."""
    name = model.rpartition("+")[2]
    return name if name in NETWORKS else ""


def _check_idle(parser: VerbParser, parsed: Namespace) -> None:
    """Refuse options that would do nothing: those of another model or schedule than the chosen one."""
    of_models: dict[str, tuple[str, ...]] = {
        name: (model,) for model, own in OWN_OPTIONS.items() for name in vars(own())
    }
    of_training = {*vars(NetworkOptions()), *vars(FitOptions()), "ensemble_size", "resume", "logger"}
    of_models |= dict.fromkeys(sorted(of_training - {"seed", "metric"}), NETWORKS)
    models = _models_of(parsed)
    check_idle(parser, parsed, "model", {*models, *map(network_of, models)}, of_models)
    check_idle(parser, parsed, "schedule", {parsed.schedule}, OF_SCHEDULES)
