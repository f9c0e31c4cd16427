"""Test errors of the kernel network on published regression sets, over several seeds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import load_molecules, random_split
from wlkernelnn.files import write_text
from wlkernelnn.training import FitOptions, score, train_run

from .about import environment

METRICS = ("rmse", "mae")


@dataclass(frozen=True)
class Recipe:
    """How a data set is learned.

    Attributes:
        options: Training.
        network: Arguments of the network, the decay left out.
        split_seeds: Every seed also draws its own split; otherwise all share that of seed 0.
    """

    options: FitOptions
    network: dict[str, Any]
    split_seeds: bool


_SMALL = Recipe(
    FitOptions(epochs=60, lr=2e-3, ema_decay=0.99),
    {"dropout": 0.1},
    split_seeds=True,
)
RECIPES = {
    "cep": Recipe(FitOptions(epochs=40, lr=2e-3), {"dropout": 0.15}, split_seeds=False),
    "esol": _SMALL,
    "freesolv": _SMALL,
}


@dataclass
class AccuracyOptions:
    """What is trained, and where results go.

    Args:
        data: Which data sets: cep, esol, freesolv.
        decays: Decays of the network, numbers or "learned" or "gated".
        seeds: Seeds 0, 1, … of the network; for esol and freesolv of the split as well.
        output_dir: Folder of the run folders. Runs that are finished are not repeated, and one that was
            interrupted goes on, so that several processes can share the work.
        root: Folder with published data sets; by default $WLKERNELNN_DATA.
        matmul_precision: float32 matrix products: "highest", "high" or "medium".
        quick: Two epochs, only to see that everything works.
    """

    data: list[str] | None = None
    decays: list[str] | None = None
    seeds: int = 3
    output_dir: Path = Path("runs/accuracy")
    root: str | None = None
    matmul_precision: Literal["highest", "high", "medium"] = "highest"
    quick: bool = False


def main(argv: list[str] | None = None) -> None:
    parser = verb_parser("benchmark accuracy", __doc__)
    add_options(parser, "Options", AccuracyOptions)
    options = AccuracyOptions(**pick(parser.parse_args(argv), AccuracyOptions))
    names = options.data or list(RECIPES)
    if unknown := [name for name in names if name not in RECIPES]:
        raise ValueError(f"--data: expected any of {', '.join(RECIPES)}, got {', '.join(unknown)}")

    table = Table(
        title="random split 80/10/10, test part" + (" (quick: too few epochs)" if options.quick else "")
    )
    for column in ("data", "decay", "seeds", *METRICS, "parameters", "seconds per network"):
        table.add_column(column, justify="left" if column in ("data", "decay") else "right")
    records = []
    for name in names:
        for decay in options.decays or ["gated"]:
            record = evaluate(name, decay, options)
            records.append(record)
            spread = [f"{np.mean(record[m]):.3f} ± {np.std(record[m]):.3f}" for m in METRICS]
            seconds = f"{np.mean(record['seconds']):.0f}"
            table.add_row(name, decay, str(options.seeds), *spread, f"{record['parameters']:,}", seconds)
    Console().print(table)
    result = {"quick": options.quick, "environment": environment(), "results": records}
    write_text(options.output_dir / "accuracy.json", json.dumps(result, indent=2) + "\n")


def evaluate(name: str, decay: str, options: AccuracyOptions) -> dict[str, Any]:
    """Train a network per seed and score it on its test part."""
    recipe = RECIPES[name]
    data = load_molecules(name, options.root, progress=True)
    training = replace(recipe.options, matmul_precision=options.matmul_precision)
    if options.quick:
        training = replace(training, epochs=2)
    network = recipe.network | {"decay": decay if decay in ("learned", "gated") else float(decay)}
    record: dict[str, Any] = {"data": name, "decay": decay, "network": network, "options": asdict(training)}
    record |= {metric: [] for metric in (*METRICS, "valid", "seconds")}
    for seed in range(options.seeds):
        split_idx = random_split(len(data), seed=seed if recipe.split_seeds else 0)
        directory = options.output_dir / name / decay / f"seed_{seed}"
        seeded = replace(training, seed=seed)
        metrics = directory / "metrics.json"
        if not metrics.is_file():
            train_run(data, split_idx, directory, seeded, network=network, resume=True)
        report = json.loads(metrics.read_text(encoding="utf-8"))
        predictions = pd.read_csv(directory / "test_predictions.csv")
        target = data.description.target_names[0]
        measured, predicted = predictions[[target]].to_numpy(), predictions[[f"{target}_pred"]].to_numpy()
        for metric in METRICS:
            record[metric].append(score(metric, measured, predicted))
        record["valid"].append(report["valid"])
        record["seconds"].append(report["seconds"])
        record["parameters"] = report["parameters"]
    return record
