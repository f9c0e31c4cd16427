"""How many measurements lie in predicted intervals, of networks and of the kernel machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error as rmse

from wlkernelnn.bench.harness.cells import Record, epochs_of, first, out_of, scored, seeds
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, begin, chosen, kept
from wlkernelnn.bench.molecules.moleculenet import STACK
from wlkernelnn.datasets import PackedGraphs, load_molecules, random_split
from wlkernelnn.machines import MoleculeMachine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.training import Ensemble, FitOptions, train_run, uncertainty

SETS = {
    name.rpartition("/")[2]: name
    for name in (
        *("esol", "freesolv"),
        *("moleculeace/CHEMBL237_EC50", "moleculeace/CHEMBL2971_Ki", "moleculeace/CHEMBL218_EC50"),
    )
}
MODELS = {
    "spread": "5 networks, their spread alone",
    "ensemble": "5 networks, recalibrated",
    "alone": "one network, recalibrated",
    "mve": "one network, mean and deviation",
    "quantile": "one network, quantiles",
    "gp": "kernel machine",
}
NETWORKS, SEEDS = 5, 2
RECIPE = FitOptions(epochs=20, lr=2e-3, ema_decay=0.99)
# Bounds of the four intervals, and the median.
LEVELS = (0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975)
HEADS: dict[str, dict[str, Any]] = {
    "mve": {"loss": "mve"},
    "quantile": {"loss": "quantile", "quantiles": LEVELS},
}
# Molecules of a quick run.
QUICK = 120

LEGEND = f"""* Shares of the test molecules in their intervals of 50, 80, 90 and 95 %, in per cent; nll: mean
  negative log-likelihood; Spearman: rank correlation of absolute errors and predicted deviations. Mean and,
  over several seeds, unbiased standard deviation. The share of 90 % of 100 molecules has a deviation of 3 %.
* Splits are random, 80/10/10, drawn by the seed, of MoleculeACE's sets too: these are not the published ones.
* Networks are deep kernel stacks on OGB's columns, {RECIPE.epochs} epochs; the recipe is a short one, and no
  result of these networks. The validation part chooses the best epoch of each network and then gives the two
  numbers of the recalibration, variance = a² spread² + b². "one network, recalibrated" is the first of the
  five.
* "mean and deviation" is a network trained with loss "mve", its deviation recalibrated in the same way (the
  predicted variance in the place of spread²). "quantiles" is one with loss "quantile" and the bounds of the
  four intervals, shifted by conformal regression on the validation part; its nll and Spearman are of a normal
  distribution as wide as its outer interval.
* The kernel machine is the default of "wlkernelnn train"; it does not look at the validation part.
"""


@dataclass
class IntervalOptions(TrainedOptions):
    """What is trained, and where results go.

    Args:
        sets: Which sets; by default all.
        seeds: Seeds 0, 1, … of splits and networks.
        quick: Few molecules, and one epoch: only to see that everything works.
    """

    seeds: int = SEEDS
    run_dir: Path = Path("runs/intervals")
    sets: list[str] | None = None


def pages(options: IntervalOptions) -> Iterator[Page]:
    """The table of all sets."""
    models = chosen("models", options.models, MODELS)
    names = chosen("sets", options.sets, SETS)
    features = dict.fromkeys(_features(model) for model in models)
    stores = {
        (name, of): load_molecules(SETS[name], options.root, features=of)[: QUICK if options.quick else None]
        for name in names
        for of in features
    }
    runs = [
        partial(_run, model, name, stores[name, _features(model)], seed)
        for name in names
        for seed in options.all_seeds
        for model in models
    ]
    contents = {f"{name} {of}": store.digest() for (name, of), store in stores.items()}
    yield Page(TABLE, runs, same_data=on_same_data("store", contents))


def _features(model: str) -> str:
    return FEATURES if model == "gp" else "ogb"


def _run(
    model: str, name: str, data: PackedGraphs, seed: int, options: IntervalOptions, known: Record
) -> Record:
    split = random_split(len(data), seed=seed)
    content, epochs = data.digest(), 0 if model == "gp" else options.limit(RECIPE.epochs)

    trained_as = f"{epochs}_epochs_{options.matmul_precision}_" if epochs else ""

    def folder(what: str) -> Path:
        return options.folder(f"{name}_{content}", f"{trained_as}{what}_{seed}")

    def fit() -> Record:
        test, quantiles = data[split["test"]], None
        if model == "gp":
            mean, std = MoleculeMachine().fit(data[split["train"]]).predict(test, return_std=True)
        else:
            kind = model if model in HEADS else "networks"
            begin(folder(kind), known)
            recipe = replace(RECIPE, epochs=epochs, **options.of_run(seed))
            networks = _networks(data, split, folder(kind), recipe, HEADS.get(model))
            if model == "alone":
                networks = Ensemble(networks.networks[:1], networks.about)
                networks.recalibrate(data[split["valid"]])
            mean, std, quantiles = networks.forecast(test)
            if model == "spread":
                std = networks.predict(test)[1]
        target = test.y.double().numpy()
        measured = uncertainty(["y"], target, mean, std)["mean"]
        if quantiles is not None:
            measured |= _between(target, quantiles)
        return {
            "model": model,
            "data": name,
            "store": f"{name} {_features(model)}",
            "content": content,
            "split": "random",
            "seed": seed,
            "counts": {part: len(rows) for part, rows in split.items()},
            "recipe": {} if model == "gp" else asdict(recipe),
            "rmse": float(rmse(target, mean)),
            "spearman": measured.pop("error_spearman"),
            **measured,
            "epochs": epochs,
            "stopped": epochs == RECIPE.epochs,
            **known,
        }

    return kept(folder(model), epochs, fit, known)


def _between(target: np.ndarray, quantiles: np.ndarray) -> Record:
    """Shares of targets ``[n, 1]`` between each two of the quantiles ``[n, 1, 9]``."""
    half = len(LEVELS) // 2
    pairs = [(LEVELS[-1 - q] - LEVELS[q], quantiles[..., q], quantiles[..., -1 - q]) for q in range(half)]
    return {
        f"coverage_{100 * share:.0f}": float(((low <= target) & (target <= high)).mean())
        for share, low, high in pairs
    }


def _networks(
    data: PackedGraphs,
    split: dict[str, np.ndarray],
    folder: Path,
    recipe: FitOptions,
    head: dict[str, Any] | None,
) -> Ensemble:
    """Train networks, or one with a head of its own, or take those that were."""
    ensemble, _ = train_run(
        data,
        split,
        folder,
        recipe,
        kind="KernelStackNetwork",
        network=STACK | (head or {}),
        ensemble_size=NETWORKS if head is None else 1,
        resume=True,
        progress=False,
    )
    return ensemble


def ranks(runs: list[Record]) -> str:
    """The rank correlation, of the runs whose deviations differ from molecule to molecule."""
    having = [run for run in runs if run["spearman"] is not None and np.isfinite(run["spearman"])]
    return scored("spearman", digits=2)(having) if having else "–"


TABLE = Table(
    "Predicted intervals",
    [
        ("set", first("data")),
        ("model", lambda runs: MODELS[runs[0]["model"]]),
        ("seeds", seeds(SEEDS)),
        ("epochs", lambda runs: out_of(epochs_of(runs), RECIPE.epochs) if runs[0]["recipe"] else "–"),
        ("RMSE", scored("rmse", digits=3)),
        *((f"{percent} %", scored(f"coverage_{percent}", 100)) for percent in (50, 80, 90, 95)),
        ("nll", scored("nll", digits=2)),
        ("Spearman", ranks),
    ],
    lambda run: (list(SETS).index(run["data"]), list(MODELS).index(run["model"])),
    LEGEND,
)
main = Experiment("intervals", __doc__, IntervalOptions, pages, ("scikit-learn", "scipy")).main
