"""The model card of a run folder: what was trained on what, how well it does, and what it is not for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines.saved import README
from wlkernelnn.training.molecules.columns import Model, has_deviations, kernel_machine
from wlkernelnn.training.molecules.ensemble import Ensemble
from wlkernelnn.utils.checks import plain
from wlkernelnn.utils.files import write_text

from .page import number
from .repeat import versions
from .run import PAGE, about_train
from .sections import TITLES

#: In a run folder.
CARD = "README.md"
_CARD = """---
{metadata}---

# {names}

Predicts {names} of molecules from SMILES ({task}). Model: {kind}, {parameters:,} parameters.

## Training data

{data}, {split}: {counts}. Features: {features}.

## Scores

{scores}

{train}

## Use

```bash
wlkernelnn predict --test-path new.csv --model-path {directory} --preds-path out.csv
```

Meant for molecules like those of the training part: ranking and triage before an experiment. Not for
decisions on people's health by itself.

## Limits

{limits}

## Repeat

{command}All options are in `config.yaml`, plots in `{page}`. Trained in {seconds:,.0f} s with {versions}.
"""


def write_model_card(
    directory: str | os.PathLike[str],
    model: Model,
    data: PackedGraphs,
    report: Mapping[str, Any],
    *,
    split_name: str = "",
    command: str = "",
) -> Path:
    """Write ``README.md`` into a run folder: Markdown under the metadata that model hubs read.

    Args:
        directory: The folder of :func:`~wlkernelnn.training.train_run`, ``train_machine`` or ``train_joint``.
        model: What was trained.
        data: The whole data set.
        report: The content of ``metrics.json``.
        split_name: What the split is called.
        command: What repeats the run.

    Returns:
        Where the card is.
    """
    directory, about = Path(directory), model.about
    rejected = f" ({len(data.rejects):,} rows were rejected)" if data.rejects else ""
    unit = f", {about['unit']}" if about.get("unit") else ""
    classes = ", ".join(map(str, about.get("classes", [])))
    metadata = yaml.safe_dump(_metadata(directory, model, data, report), sort_keys=False, allow_unicode=True)
    text = _CARD.format(
        metadata=metadata,
        names=", ".join(about["target_names"]),
        task=f"{about['task']}{unit}{f': {classes}' if classes else ''}",
        kind=_kind(model),
        parameters=report["parameters"],
        data=f"{data.description.name}: {len(data):,} molecules{rejected}",
        split=f"split {split_name}" if split_name else "parts",
        counts=", ".join(f"{count:,} {part}" for part, count in report["counts"].items()),
        features=about["features"],
        scores="\n".join(_scores(report)),
        train=about_train(report),
        directory=shlex.quote(str(directory)),
        limits="\n".join(f"- {limit}" for limit in _limits(directory, model, report)),
        command=f"```bash\n{command}\n```\n\n" if command else "",
        page=PAGE,
        seconds=report["seconds"],
        versions=versions(),
    )
    write_text(directory / CARD, text)
    return directory / CARD


def _kind(model: Model) -> str:
    if not isinstance(model, Ensemble):
        return type(model).__name__
    name, count = type(model.networks[0]).__name__, len(model.networks)
    return f"{count} × {name}" if count > 1 else name


def _metadata(directory: Path, model: Model, data: PackedGraphs, report: Mapping[str, Any]) -> dict[str, Any]:
    """The head of the card, with the names that Hugging Face gives to its entries."""
    task, metric = model.about["task"], report["metric"]
    part = next((part for part in ("test", "valid") if part in report["counts"]), "train")
    score = plain(report["scores"][part]["mean"][metric])
    name = data.description.name
    result = {
        "task": {"type": "graph-ml", "name": f"molecular property {task}"},
        "dataset": {"name": name, "type": name},
        "metrics": [{"type": metric, "name": f"{metric}, {part}", "value": score}],
    }
    return {
        "library_name": "wlkernelnn",
        "pipeline_tag": "graph-ml",
        "tags": ["chemistry", "molecules", task, type(model).__name__],
        "metrics": [metric],
        "model-index": [{"name": directory.resolve().name, "results": [result]}],
    }


def _scores(report: Mapping[str, Any]) -> list[str]:
    """All metrics of each part, as a table."""
    scores = report["scores"]
    metrics = [*scores["train"]["mean"]]
    rows = [["part", "molecules", *(TITLES.get(metric, metric) for metric in metrics)]]
    rows.append(["---", *["---:"] * (len(metrics) + 1)])
    for part, each in scores.items():
        rows.append([part, f"{report['counts'][part]:,}", *(number(each["mean"][name]) for name in metrics)])
    return [f"| {' | '.join(row)} |" for row in rows]


def _limits(directory: Path, model: Model, report: Mapping[str, Any]) -> list[str]:
    """What a user of the model must know."""
    has = {"`predict --std`": has_deviations(model), "`predict --nearest`": kernel_machine(model) is not None}
    see = " and ".join(option for option, there in has.items() if there)
    limits = [
        f"Errors grow for molecules unlike those of the training part{f'; see {see}' if see else ''}.",
        "Errors of the measurements are in the model: nothing but rows without a molecule or without a "
        "target was left out.",
        f"Files of predictions and `{PAGE}` show molecules of the data: leave them out of what you publish.",
        "Nothing here says whether the licence of the data lets you publish the model.",
    ]
    if "test" not in report["counts"]:
        limits.insert(0, "No score here is of molecules that played no part in the training.")
    if kernel_machine(model) is not None:
        limits.insert(0, "Kernels do not see stereochemistry.")
    for notice in directory.rglob(README):
        text = notice.read_text("utf-8").partition("\n\n")[2]
        limits.append(" ".join(text.split()))
    return limits
