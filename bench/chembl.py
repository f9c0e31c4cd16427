"""Train on the 1,017 measured molecules that come with rdkit, and compare: minutes, no download."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console

from wlkernelnn.cli.options import add_options, pick, verb_parser
from wlkernelnn.datasets import load_molecules
from wlkernelnn.files import atomic_path, json_text, write_text
from wlkernelnn.training import FitOptions, score, train_run

from .about import environment
from .baselines import Result, gine, mean_predictor, random_forest, ridge
from .tables import printed

METRICS = ("rmse", "mae", "r2")
# Eight hundred molecules are few: a narrow network.
NETWORK: dict[str, Any] = {"hidden_channels": 64, "norm": False, "dropout": 0.2}


@dataclass
class ChemblOptions:
    """What is computed, and where results go.

    Args:
        output_dir: The run folder, for "wlkernelnn predict"; comparison.json and the plot lie in it as well.
        epochs: Epochs of the two networks.
        seed: Seed of everything.
        resume: Go on with a run that was interrupted.
        quick: A tenth of the epochs, only to see that everything works.
    """

    output_dir: Path = Path("runs/chembl")
    epochs: int = 100
    seed: int = 0
    resume: bool = False
    quick: bool = False


def main(argv: list[str] | None = None) -> None:
    parser = verb_parser("benchmark chembl", __doc__)
    add_options(parser, "Options", ChemblOptions)
    options = ChemblOptions(**pick(parser.parse_args(argv), ChemblOptions))
    epochs = max(options.epochs // 10, 1) if options.quick else options.epochs
    recipe = FitOptions(epochs=epochs, lr=2e-3, ema_decay=0.99, seed=options.seed)

    data = load_molecules("chembl2321810")
    assert data.split_idx is not None  # the recommended one: by scaffold
    train, valid, test = (data[data.split_idx[part]] for part in ("train", "valid", "test"))
    ensemble, report = train_run(
        data,
        data.split_idx,
        options.output_dir,
        recipe,
        network=NETWORK,
        resume=options.resume,
    )
    prediction, _ = ensemble.predict(test)
    ours = Result("gated WL kernel network", prediction, report["parameters"], report["seconds"])
    results = [
        ours,
        gine(train, valid, test, ours.parameters, recipe, norm=NETWORK["norm"], dropout=NETWORK["dropout"]),
        random_forest(train, test, options.seed),
        ridge(train, valid, test),
        mean_predictor(train, test),
    ]

    target = test.y.numpy()
    scores = [{name: score(name, target, result.prediction) for name in METRICS} for result in results]
    quick = " (quick: too few epochs)" if options.quick else ""
    table: list[tuple[str, ...]] = [("model", *METRICS, "parameters", "seconds")]
    for result, row in zip(results, scores, strict=True):
        numbers = (f"{row[name]:.3f}" for name in METRICS)
        table.append((result.name, *numbers, f"{result.parameters:,}", f"{result.seconds:.1f}"))
    console = Console()
    console.print(printed(table, f"chembl2321810, scaffold split, {len(test)} test molecules{quick}"))

    plot = options.output_dir / "predicted_against_measured.png"
    draw(plot, data.description.unit, target[:, 0], results[:2])
    rows = [
        {"model": r.name, **s, "parameters": r.parameters, "seconds": r.seconds}
        for r, s in zip(results, scores, strict=True)
    ]
    record = {
        "quick": options.quick,
        "options": asdict(recipe),
        "environment": environment(),
        "results": rows,
    }
    write_text(options.output_dir / "comparison.json", json_text(record, indent=2))
    console.print(f"plot: {plot}")
    console.print(
        f"predict with: wlkernelnn predict --model-path {options.output_dir} --test-path FILE.csv "
        "--preds-path predictions.csv",
        soft_wrap=True,
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
