"""Train on the 1,017 measured molecules that come with rdkit, and compare: five minutes, no download."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.table import Table

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import PackedGraphs, load_molecules
from wlkernelnn.files import atomic_path, write_text
from wlkernelnn.training import FitOptions, score, train_run

from .baselines import Result, gine, mean_predictor, random_forest, ridge


@dataclass
class ChemblOptions:
    """Where results go, and how much is computed.

    Args:
        output_dir: The run folder, for "wlkernelnn predict"; the table and the plot go there as well.
        epochs: Epochs of both networks.
        seed: Seed of everything.
        quick: A tenth of the epochs: to see that everything works.
    """

    output_dir: Path = Path("runs/chembl")
    epochs: int = 100
    seed: int = 0
    quick: bool = False


def main(argv: list[str] | None = None) -> None:
    parser = verb_parser("benchmark chembl", __doc__)
    add_options(parser, "Options", ChemblOptions)
    options = ChemblOptions(**pick(parser.parse_args(argv), ChemblOptions))
    epochs = max(options.epochs // 10, 1) if options.quick else options.epochs
    fit_options = FitOptions(epochs=epochs, lr=2e-3, ema_decay=0.99, seed=options.seed)

    data = load_molecules("chembl2321810")
    assert data.split_idx is not None
    train, valid, test = (data[data.split_idx[part]] for part in ("train", "valid", "test"))
    network = {"readout": "last", "dropout": 0.1}
    ensemble, report = train_run(data, data.split_idx, options.output_dir, fit_options, network=network)
    prediction, _ = ensemble.predict(test)
    ours = Result("gated WL kernel network", prediction, report["parameters"], report["seconds"])
    results = [
        ours,
        gine(train, valid, test, ours.parameters, fit_options),
        random_forest(train, test, options.seed),
        ridge(train, valid, test),
        mean_predictor(train, test),
    ]
