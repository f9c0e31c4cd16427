"""How a run was trained, and how to repeat it: parts of the pages of all runs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wlkernelnn import __version__

from .page import escaped, paragraph, row
from .panels import learning

PACKAGES = (
    "torch",
    "torch-geometric",
    "pytorch-lightning",
    "rdkit",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
)
# Networks that are shown.
_NETWORKS = 4


def dated() -> str:
    """The version, and the time now."""
    return f"wlkernelnn {__version__}, {datetime.now(UTC):%d %B %Y, %H:%M} UTC"


def learning_curves(folders: Sequence[Path], metric: str, maximize: bool) -> str:
    """Curves of the first networks, from the files beside their weights.

    Args:
        folders: Of the networks.
        metric: Of the validation part; it may be missing.
        maximize: The largest score is the best.
    """
    html = ""
    for place, folder in enumerate(folders[:_NETWORKS], 1):
        if not (folder / "history.csv").is_file():
            continue
        columns = pd.read_csv(folder / "history.csv")
        history = {str(name): column.to_numpy(float) for name, column in columns.items()}
        scores = history.get(f"valid_{metric}")
        kept = None
        if scores is not None and np.isfinite(scores).any():
            best = np.nanargmax(scores) if maximize else np.nanargmin(scores)
            kept = int(history["epoch"][best]) + 1
        html += row(learning(f"network {place}" if len(folders) > 1 else "network", metric, history, kept))
    if len(folders) > _NETWORKS:
        html += paragraph(f"The first {_NETWORKS} of {len(folders)} networks.", soft=True)
    return html


def repeat(command: str, config: str, report: Mapping[str, Any]) -> str:
    """The command and the options of a run, the machine, and the versions."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} processor cores"
    html = f"<pre>{escaped(command)}</pre>" if command else ""
    if config:
        html += f"<details><summary>all options (config.yaml)</summary><pre>{escaped(config)}</pre></details>"
    html += paragraph(
        f"Trained in {report['seconds']:,.1f} s; {report['parameters']:,} parameters; {machine}."
    )
    return html + paragraph(versions(), soft=True)


def versions() -> str:
    """Of this package, Python, and the packages that features and fits depend on."""
    known = [("wlkernelnn", __version__), ("python", platform.python_version())]
    known += [(name, _version(name)) for name in PACKAGES]
    return "; ".join(f"{name} {version}" for name, version in known)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        module = sys.modules.get(package.replace("-", "_"))
        return str(getattr(module, "__version__", "not installed"))
