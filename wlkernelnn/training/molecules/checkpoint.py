"""Trained networks as files: weights in safetensors, everything else in JSON."""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

from wlkernelnn.models import NETWORKS, GraphKernelNetwork, GraphNetwork
from wlkernelnn.utils.files import read_json, read_tensors, write_tensors, write_text

FORMAT = "wlkernelnn.checkpoint/1"
WEIGHTS, CONFIG = "model.safetensors", "config.json"


def save_checkpoint(
    directory: str | os.PathLike[str], net: GraphNetwork, about: dict[str, Any] | None = None
) -> None:
    """Write ``model.safetensors`` and ``config.json`` into a folder.

    Args:
        directory: The folder; made if it isn't there.
        net: The network, target scaling included; of a class in :data:`~wlkernelnn.models.NETWORKS`.
        about: What else a user of the weights must know, as JSON: featurizer, target names, unit, ….

    Raises:
        ValueError: The class of the network is another, so that nobody could load it.
    """
    directory = Path(directory)
    if type(net).__name__ not in NETWORKS:
        raise ValueError(f"expected a network of {', '.join(NETWORKS)}, got {type(net).__name__}")
    write_tensors(directory / WEIGHTS, net.state_dict(), {"format": FORMAT})
    config = {"format": FORMAT, "kind": type(net).__name__, "network": net.config, "about": about or {}}
    write_text(directory / CONFIG, json.dumps(config, indent=2) + "\n")


def load_checkpoint(directory: str | os.PathLike[str]) -> tuple[GraphNetwork, dict[str, Any]]:
    """The network (in evaluation mode) and ``about`` of :func:`save_checkpoint`.

    Raises:
        FileNotFoundError: One of the two files is missing.
        ValueError: A file is damaged, has another format, an unknown or missing key, or weights
            that don't fit.
    """
    directory = Path(directory)
    path = directory / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a folder that holds {CONFIG} and {WEIGHTS}")
    config = read_json(path)
    _check_keys(path, config, {"format", "kind", "network", "about"}, {"format", "network", "about"})
    if config["format"] != FORMAT:
        raise ValueError(f"{path}: expected format {FORMAT}, got {config['format']!r}")
    # Before there were several, checkpoints did not name the class.
    kind = config.get("kind", GraphKernelNetwork.__name__)
    if kind not in [*NETWORKS]:  # what cannot be hashed is none either
        raise ValueError(f"{path}: expected kind {' or '.join(NETWORKS)}, got {kind!r}")
    if not isinstance(config["about"], dict):
        raise ValueError(f"{path}: expected about to be an object, got {config['about']!r}")
    parameters = inspect.signature(NETWORKS[kind]).parameters
    required = {name for name, p in parameters.items() if p.default is inspect.Parameter.empty}
    _check_keys(path, config["network"], set(parameters), required, "network.")
    try:
        net = NETWORKS[kind](**config["network"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: network: {error}") from error
    weights, _ = read_tensors(directory / WEIGHTS)
    try:
        net.load_state_dict(weights)
    except RuntimeError as error:
        what = " ".join(str(error).split())
        raise ValueError(f"{directory / WEIGHTS}: the weights don't fit {path}: {what}") from error
    return net.eval(), config["about"]


def _check_keys(path: Path, came: Any, known: set[str], required: set[str], prefix: str = "") -> None:
    if not isinstance(came, dict):
        raise ValueError(f"{path}: expected an object with keys {', '.join(sorted(known))}, got {came!r}")
    for name in came:
        if name not in known:
            raise ValueError(f"{path}: unknown key {prefix}{name}; known are {', '.join(sorted(known))}")
    for name in sorted(required - set(came)):
        raise ValueError(f"{path}: missing key {prefix}{name}")
