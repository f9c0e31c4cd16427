"""Train on the 1,017 measured molecules that come with rdkit, and compare: minutes, no download."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console

from wlkernelnn.bench.baselines.kernel_machines import kernel_machine
from wlkernelnn.bench.baselines.molecules import Result, gine, mean_predictor, random_forest, ridge
from wlkernelnn.bench.harness.cells import Record, first
from wlkernelnn.bench.harness.molecule_runs import score_of
from wlkernelnn.bench.harness.options import parsed
from wlkernelnn.bench.harness.provenance import about
from wlkernelnn.bench.harness.runs import Table
from wlkernelnn.bench.harness.tables import printed
from wlkernelnn.bench.harness.trained import MAKER, claim, device_of
from wlkernelnn.cli.options import PositiveInt
from wlkernelnn.datasets import load_molecules
from wlkernelnn.machines import load_machine
from wlkernelnn.machines.parts import FEATURES
from wlkernelnn.machines.saved import is_machine
from wlkernelnn.training import FitOptions, check_free, score, train_machine, train_run
from wlkernelnn.utils.files import atomic_path

METRICS = ("rmse", "mae", "r2")
# Eight hundred molecules are few: a narrow network.
NETWORK: dict[str, Any] = {"hidden_channels": 64, "norm": False, "dropout": 0.2}

LEGEND = """* Mean and, over several seeds, unbiased standard deviation.
* GINE is of the width that gives it as many parameters as our network has, and trained by the same recipe.
  Of the forest, the nodes of its trees are counted, in the mean of its seeds.
* The kernel machine is a Gaussian process on exact kernels and descriptors, the default of "wlkernelnn
  train". Like the forest it does not look at the validation part. Its parameters are a weight for each
  training molecule, the amplitudes of the kernels, and the noise.
* Seconds are those of all seeds: of the networks, their epochs; of the others, fingerprints or descriptors,
  fitting and predicting.
"""


@dataclass
class ChemblOptions:
    """What is computed, and where results go.

    Args:
        output_dir: The run folder, for "wlkernelnn predict"; the plot lies in it as well.
        table_dir: Folder of the table, as Markdown and JSON; default the run folder.
        epochs: Epochs of the two networks.
        seed: Seed of everything.
        seeds: Train the networks, and grow the forest, with so many seeds, from that one on: the table has
            means and standard deviations, and the seconds of all. The run folder is of the first.
        resume: Go on with a run of the same revision that was interrupted.
        quick: Only what works in seconds: no networks, which would need their epochs. The run folder is that
            of the kernel machine then.
    """

    output_dir: Path = Path("runs/chembl")
    table_dir: Path | None = None
    epochs: int = 100
    seed: int = 0
    seeds: PositiveInt = 1
    resume: bool = False
    quick: bool = False


def main(argv: list[str] | None = None) -> None:
    options = parsed("chembl", __doc__, ChemblOptions, argv)
    epochs = 0 if options.quick else options.epochs
    seeds = range(options.seed, options.seed + options.seeds)
    recipes = [FitOptions(epochs=options.epochs, lr=2e-3, ema_decay=0.99, seed=seed) for seed in seeds]

    first = options.output_dir.resolve()
    folders = [first, *(first.with_name(f"{first.name}_seed_{seed}") for seed in seeds[1:])]
    if options.quick:
        folders = [first]  # there are no networks
    known = about("chembl", argv, options.quick)
    known |= {"device": device_of("auto"), "threads": torch.get_num_threads()}
    known |= {"seeds": len(seeds), "epochs": epochs}
    for folder in folders:
        if not options.resume:
            check_free(folder)
            # Of a run that ended before it had a network.
            (folder / MAKER).unlink(missing_ok=True)
        claim(folder, known)
    data = load_molecules("chembl2321810")
    assert data.split_idx is not None  # the recommended one: by scaffold
    train, valid, test = (data[data.split_idx[part]] for part in ("train", "valid", "test"))
    others = {name: NETWORK[name] for name in ("norm", "dropout")}
    if options.quick:
        results = [machine_run(folders[0], options.resume)]
        results += [random_forest(train, test, recipe.seed) for recipe in recipes]
    else:
        results = [kernel_machine(train, test)]
        more: dict[str, Any] = {"network": NETWORK, "resume": options.resume}
        for recipe, folder in zip(recipes, folders, strict=True):
            ensemble, report = train_run(data, data.split_idx, folder, recipe, **more)
            prediction, _ = ensemble.predict(test)
            results += [
                Result("gated WL kernel network", prediction, report["parameters"], report["seconds"]),
                gine(train, valid, test, report["parameters"], recipe, **others),
                random_forest(train, test, recipe.seed),
            ]
    results += [ridge(train, valid, test), mean_predictor(train, test)]

    target = test.y.numpy()
    runs: list[Record] = [
        {
            "data": data.description.name,
            "split": "scaffold",
            "model": result.name,
            "metric": METRICS[0],
            "parameters": result.parameters,
            "scores": {"test": {metric: score(metric, target, result.prediction) for metric in METRICS}},
            "seconds": result.seconds,
        }
        for result in results
    ]
    title = f"{data.description.name}, scaffold split, {len(test)} test molecules"
    stem = (options.table_dir or options.output_dir) / "chembl"
    rows = table_of(title).write(stem, known, runs)
    console = Console()
    console.print(printed(rows, f"{title}, seeds: {len(recipes)} ({known['mode']})"))
    plot = options.output_dir / "predicted_against_measured.png"
    draw(plot, data.description.unit, target[:, 0], results[:2])
    console.print(f"plot: {plot}")
    console.print(
        f"predict with: wlkernelnn predict --model-path {options.output_dir} --test-path FILE.csv "
        "--preds-path predictions.csv",
        soft_wrap=True,
    )


def machine_run(folder: Path, resume: bool) -> Result:
    """The kernel machine, as "wlkernelnn train" leaves it in a run folder."""
    data = load_molecules("chembl2321810", features=FEATURES)
    assert data.split_idx is not None
    start = time.perf_counter()
    if resume and is_machine(folder):
        machine = load_machine(folder)
    else:
        machine, _ = train_machine(data, data.split_idx, folder)
    prediction = machine.predict(data[data.split_idx["test"]])
    parameters = len(data.split_idx["train"]) + machine.num_parameters
    return Result("kernel machine", prediction, parameters, time.perf_counter() - start)


def table_of(title: str) -> Table:
    """A row per model, over its runs."""
    return Table(
        title,
        [
            ("model", first("model")),
            *((metric, score_of("test", metric)) for metric in METRICS),
            ("parameters", lambda runs: f"{np.mean([run['parameters'] for run in runs]):,.0f}"),
            ("seconds", lambda runs: f"{sum(run['seconds'] for run in runs):.1f}"),
        ],
        lambda run: (run["model"],),
        LEGEND,
    )


def draw(path: Path, unit: str, measured: np.ndarray, results: Sequence[Result]) -> None:
    """A square panel per model: predicted against measured, with the diagonal."""
    figure = Figure(figsize=(5 * len(results), 5), layout="constrained")
    axes = figure.subplots(1, len(results), sharex=True, sharey=True, squeeze=False)[0]
    values = np.concatenate([measured, *(result.prediction[:, 0] for result in results)])
    limits = (values.min() - 0.2, values.max() + 0.2)
    for axis, result in zip(axes, results, strict=True):
        axis.plot(limits, limits, color="0.6", linewidth=1)
        axis.scatter(measured, result.prediction[:, 0], s=14, alpha=0.6)
        axis.set(title=result.name, xlabel=f"measured {unit}", xlim=limits, ylim=limits, aspect="equal")
    axes[0].set_ylabel(f"predicted {unit}")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
