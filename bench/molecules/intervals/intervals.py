"""How many measurements lie in predicted intervals, of networks and of the kernel machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import root_mean_squared_error as rmse

from wlkernelnn.bench.harness.cells import Record, first, scored, seeds
from wlkernelnn.bench.harness.experiment import Experiment, Page
from wlkernelnn.bench.harness.runs import Table, on_same_data
from wlkernelnn.bench.harness.trained import TrainedOptions, chosen, claim, kept
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
    "gp": "kernel machine",
}
NETWORKS, SEEDS = 5, 2
RECIPE = FitOptions(epochs=20, lr=2e-3, ema_decay=0.99)
# Molecules of a quick run.
QUICK = 120

LEGEND = f"""* Shares of the test molecules in their intervals of 50, 80, 90 and 95 %, in per cent; nll: mean
  negative log-likelihood; Spearman: rank correlation of absolute errors and predicted deviations. Mean and,
  over several seeds, unbiased standard deviation. The share of 90 % of 100 molecules has a deviation of 3 %.
* Splits are random, 80/10/10, drawn by the seed, of MoleculeACE's sets too: these are not the published ones.
* Networks are deep kernel stacks on OGB's columns, {RECIPE.epochs} epochs; the recipe is a short one, and no
  result of these networks. The validation part chooses the best epoch of each network and then gives the two
  numbers of the recalibration, variance = a² spread² + b². "one network" is the first of the five.
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
    yield Page(TABLE, runs, stays=on_same_data("store", contents))


def _features(model: str) -> str:
    return FEATURES if model == "gp" else "ogb"


def _run(
    model: str, name: str, data: PackedGraphs, seed: int, options: IntervalOptions, known: Record
) -> Record:
    split = random_split(len(data), seed=seed)
    content, epochs = data.digest(), 0 if model == "gp" else options.limit(RECIPE.epochs)

    def folder(what: str) -> Path:
        return options.folder(f"{name}_{content}", f"{what}_{seed}")

    def fit() -> Record:
        test = data[split["test"]]
        if model == "gp":
            mean, std = MoleculeMachine().fit(data[split["train"]]).predict(test, return_std=True)
        else:
            claim(folder("networks"), known)
            recipe = replace(RECIPE, epochs=epochs, **options.of_run(seed))
            networks = _networks(data, split, folder("networks"), recipe)
            if model == "alone":
                networks = Ensemble(networks.networks[:1], networks.about)
                networks.recalibrate(data[split["valid"]])
            mean, std = networks.predict(test)
            if model != "spread":
                assert networks.recalibration is not None
                std = networks.recalibration.std(std)
        target = test.y.double().numpy()
        measured = uncertainty(["y"], target, mean, std)["mean"]
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


def _networks(data: PackedGraphs, split: dict[str, np.ndarray], folder: Path, recipe: FitOptions) -> Ensemble:
    """Train networks, or take those that were."""
    ensemble, _ = train_run(
        data,
        split,
        folder,
        recipe,
        kind="KernelStackNetwork",
        network=STACK,
        ensemble_size=NETWORKS,
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
        ("RMSE", scored("rmse", digits=3)),
        *((f"{percent} %", scored(f"coverage_{percent}", 100)) for percent in (50, 80, 90, 95)),
        ("nll", scored("nll", digits=2)),
        ("Spearman", ranks),
    ],
    lambda run: (list(SETS).index(run["data"]), list(MODELS).index(run["model"])),
    LEGEND,
)
main = Experiment("intervals", __doc__, IntervalOptions, pages, ("scikit-learn", "scipy")).main
