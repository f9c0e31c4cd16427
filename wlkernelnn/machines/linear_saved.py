"""Linear machines as folders: numbers in safetensors, everything else in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from wlkernelnn.kernels.colour_table import ColourTable
from wlkernelnn.utils.files import (
    as_tensors,
    read_sealed,
    read_tensors,
    tensor_digest,
    understood,
    write_sealed,
    write_tensors,
    write_text,
)

from .linear import DEPTHS, LinearMachine

FORMAT = "wlkernelnn.linear/1"
CONFIG, NUMBERS, README = "config.json", "model.safetensors", "README"
_NUMBERS = ("weights", "intercept", "scale", "std", "penalties", "frequent")
_KEPT = """A linear machine of wlkernelnn.

A linear machine knows the substructures of the molecules that it was fitted to: model.safetensors holds
every distinct atom of theirs with all that lies up to three bonds around it (codes of atoms and types of
bonds), and its weight. Molecules and targets are not there, but small molecules are whole substructures,
and others can be put together from theirs. If the training molecules are confidential, so is the folder.
"""


def save_linear(directory: Path, machine: LinearMachine) -> None:
    """Write a fitted machine into a folder."""
    directory.mkdir(parents=True, exist_ok=True)
    digest = write_tensors(directory / NUMBERS, _tensors(machine), {"format": FORMAT})
    write_text(directory / README, _KEPT)
    config = {
        "format": FORMAT,
        "kind": type(machine).__name__,
        "num_iterations": machine.num_iterations_,
        "errors": machine.errors_,
        "about": machine.about,
        "files": {NUMBERS: digest},
    }
    write_sealed(directory / CONFIG, config)  # last: a folder with a config is finished


def load_linear(directory: Path) -> LinearMachine:
    """The machine that :func:`save_linear` wrote: it predicts the same numbers.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or has another format, or files do not go together.
    """
    config = read_sealed(directory / CONFIG)
    machine = LinearMachine()
    with understood(directory, "a machine is saved"):
        tensors, header = read_tensors(directory / NUMBERS, config.get("files", {}).get(NUMBERS))
        if header["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {header['format']!r}")
        machine.about, machine.num_iterations_ = config["about"], config["num_iterations"]
        if machine.num_iterations_ not in DEPTHS:
            raise ValueError(f"num_iterations must be one of {DEPTHS}, got {machine.num_iterations_!r}")
        machine.errors_ = {int(depth): error for depth, error in config["errors"].items()}
        machine.table_ = ColourTable.from_tensors(tensors, machine.num_iterations_)
        for name in _NUMBERS:
            setattr(machine, f"{name}_", tensors[name].numpy())
        outputs = "classes" if machine.about["task"] == "multiclass" else "target_names"
        expected = sum(machine.table_.sizes), len(machine.about[outputs])
        if machine.weights_.shape != expected:
            raise ValueError(f"weights must be {list(expected)}, got {list(machine.weights_.shape)}")
        for name in ("intercept_", "scale_", "std_"):
            if (shape := getattr(machine, name).shape) != expected[1:]:
                raise ValueError(f"{name[:-1]} must be [{expected[1]}], got {list(shape)}")
    return machine


def linear_digest(machine: LinearMachine) -> str:
    """SHA-256 of all that predictions depend on."""
    return tensor_digest(json.dumps(machine.about, sort_keys=True), _tensors(machine))


def _tensors(machine: LinearMachine) -> dict[str, torch.Tensor]:
    return machine.table_.tensors() | as_tensors({name: getattr(machine, f"{name}_") for name in _NUMBERS})
