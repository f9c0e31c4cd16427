"""Molecule sets of TDC and Polaris, through the packages of these names where they are installed."""

from __future__ import annotations

import importlib
import os
import re
import warnings
from collections.abc import Callable
from typing import Any
from zipfile import BadZipFile

import pandas as pd

from wlkernelnn.datasets.files.download import data_folders
from wlkernelnn.datasets.files.table_chunks import close_name

#: A table, and how :func:`~wlkernelnn.datasets.molecules_from` reads it.
Table = tuple[pd.DataFrame, dict[str, Any]]

# TDC's and Polaris's names of metrics: the task, and our name. Least squared errors are least rmse.
_METRICS = {
    "mae": ("regression", "mae"),
    "spearman": ("regression", "spearman"),
    "roc-auc": ("classification", "roc_auc"),
    "pr-auc": ("classification", "average_precision"),
    "mean_absolute_error": ("regression", "mae"),
    "mean_squared_error": ("regression", "rmse"),
    "r2": ("regression", "r2"),
    "spearmanr": ("regression", "spearman"),
    "roc_auc": ("classification", "roc_auc"),
    "pr_auc": ("classification", "average_precision"),
    "accuracy": ("classification", "accuracy"),
}


def table_of_client(source: str, root: str | os.PathLike[str] | None) -> Table | None:
    """The table of a set such as ``"tdc/caco2_wang"``; ``None`` if the name is not of a client.

    Raises:
        ImportError: The client's package is not installed.
        ValueError: The client knows no such set, or it is not of one column of SMILES.
    """
    client, _, name = source.partition("/")
    read = _CLIENTS.get(client.lower())
    return None if read is None or not name else read(name, root)


def _tdc(name: str, root: str | os.PathLike[str] | None) -> Table:
    """A set of the ADMET group (Huang et al. 2021), its test part, and the validation part of a seed.

    Leaderboards want the mean of seeds 1 to 5.
    """
    name, _, seed = name.partition("/")
    folders = data_folders(root)
    path = next((folder for folder in folders if (folder / "admet_group").is_dir()), folders[-1])
    path.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():  # it turns them off for the whole process
        try:
            group = _imported("tdc.benchmark_group", "PyTDC").admet_group(path=str(path))
        except BadZipFile as error:
            raise ValueError(
                f"{path / 'admet_group.zip'}: not downloaded whole, delete it: {error}"
            ) from error
        metrics = _imported("tdc.metadata", "PyTDC").bm_metric_names["admet_group"]
        key = name.lower()
        if key not in group.dataset_names:
            known = ", ".join(sorted(group.dataset_names))
            close = close_name(key, group.dataset_names) or "."
            raise ValueError(f"TDC's ADMET group has no set {name!r}{close} Known are {known}")
        if not re.fullmatch("[0-9]*", seed):
            raise ValueError(f"tdc/{key}/{seed}: expected a seed of the validation part, as in tdc/{key}/2")
        train, valid = group.get_train_valid_split(seed=int(seed or 1), benchmark=key, split_type="default")
        parts = {"train": train, "valid": valid, "test": group.get(key)["test"]}
    frame = pd.concat(
        [part[["Drug_ID", "Drug", "Y"]].assign(split=label) for label, part in parts.items()],
        ignore_index=True,
    )
    task, metric = _METRICS[metrics[key]]
    return frame, {
        "smiles_column": "Drug",
        "target_columns": ["Y"],
        "split_column": "split",
        "task": task,
        "metric": metric,
        "name": f"tdc/{key}/{int(seed)}" if seed else f"tdc/{key}",
    }


def _polaris(name: str, root: str | os.PathLike[str] | None) -> Table:
    """The training part of a benchmark (Wognum et al. 2024); Polaris keeps the targets of the test part."""
    benchmark = _imported("polaris", "polaris-lib").load_benchmark(name)
    train, _ = benchmark.get_train_test_split()
    # Sets, whose order differs from process to process.
    inputs, targets = (sorted(columns) for columns in (benchmark.input_cols, benchmark.target_cols))
    if len(inputs) != 1:
        raise ValueError(f"polaris/{name}: expected one column of SMILES, got {', '.join(inputs)}")
    values = train.targets if len(targets) > 1 else {targets[0]: train.targets}
    frame = pd.DataFrame({inputs[0]: train.inputs, **values}).assign(split="train")
    own = {
        "smiles_column": inputs[0],
        "target_columns": targets,
        "split_column": "split",
        "name": f"polaris/{name}",
    }
    # Polaris guesses the targets' types itself: only the metric says what the authors meant.
    return frame, own | dict(
        zip(("task", "metric"), _METRICS.get(benchmark.main_metric.label, ()), strict=False)
    )


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"sets of {module.partition('.')[0]} need the package {package}, in an environment of its own if "
            f"its versions differ: pip install {package} ({error})"
        ) from error


_CLIENTS: dict[str, Callable[[str, str | os.PathLike[str] | None], Table]] = {
    "tdc": _tdc,
    "polaris": _polaris,
}
