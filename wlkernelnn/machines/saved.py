"""Kernel machines of molecules as folders: numbers in safetensors, everything else in JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import torch

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels.transformer import fit_kernel
from wlkernelnn.utils.files import (
    as_tensors,
    read_json,
    read_sealed,
    read_tensors,
    tensor_digest,
    understood,
    write_sealed,
    write_tensors,
    write_text,
)

from .gaussian_process import GaussianProcess
from .known import KnownMean
from .linear import LinearMachine
from .linear_saved import FORMAT as LINEAR
from .linear_saved import linear_digest, load_linear, save_linear
from .molecules import MoleculeMachine
from .parts import CHOICES, check_columns, kernels_of, summed, targets_of

FORMAT = "wlkernelnn.machine/1"
CONFIG, NUMBERS, MOLECULES, README = "config.json", "model.safetensors", "molecules.safetensors", "README"
_KEPT = """A kernel machine of wlkernelnn.

A kernel machine compares new molecules with those that it was fitted to. This folder therefore holds all
training molecules (their SMILES, descriptors and measured targets, in molecules.safetensors) in
readable form. If they are confidential, so is the folder.
"""


def is_machine(directory: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a kernel machine."""
    path = Path(directory) / CONFIG
    if not path.is_file():
        return False
    config = read_json(path)
    return isinstance(config, dict) and config.get("format") in (FORMAT, LINEAR)


def save_machine(directory: str | os.PathLike[str], machine: MoleculeMachine | LinearMachine) -> None:
    """Write a fitted machine, with its training molecules and their targets, into a folder.

    That of a linear machine holds the surroundings of training atoms instead, and no targets.

    Factors of the kernel, n² numbers for each target, are not kept: what needs them makes them anew.
    """
    directory = Path(directory)
    if isinstance(machine, LinearMachine):
        save_linear(directory, machine)
        return
    process = machine.process_
    directory.mkdir(parents=True, exist_ok=True)
    files = {
        MOLECULES: process.X_train_.save(directory / MOLECULES),
        NUMBERS: write_tensors(directory / NUMBERS, _numbers(machine), {"format": FORMAT}),
    }
    write_text(directory / README, _KEPT)
    config = {
        "format": FORMAT,
        "kind": type(machine).__name__,
        "model": machine.model,
        "choice": machine.choice_,
        "errors": machine.errors_,
        "num_landmarks": process.num_landmarks,
        "about": machine.about,
        "files": files,
    }
    write_sealed(directory / CONFIG, config)  # last: a folder with a config is finished


def _numbers(machine: MoleculeMachine) -> dict[str, torch.Tensor]:
    process = machine.process_
    numbers = {
        name: np.array([getattr(target, name) for target in process.targets_])
        for name in ("mean", "scale", "noise", "amplitudes")
    }
    numbers |= {f"alpha.{t}": target.posterior.alpha for t, target in enumerate(process.targets_)}
    for name, optional in (("landmarks", process.landmarks_), ("scaling", machine.scaling_)):
        if optional is not None:
            numbers[name] = optional
    return as_tensors(numbers)


def load_machine(directory: str | os.PathLike[str]) -> MoleculeMachine | LinearMachine:
    """The machine that :func:`save_machine` wrote: it predicts the same numbers.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or has another format, or files do not go together.
    """
    directory = Path(directory)
    path = directory / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the folder of a kernel machine")
    config = read_sealed(path)
    if config.get("format") == LINEAR:
        return load_linear(directory)
    files = config.get("files", {})
    with understood(directory, "a machine is saved"):
        train = PackedGraphs.load(directory / MOLECULES, files.get(MOLECULES))
        tensors, header = read_tensors(directory / NUMBERS, files.get(NUMBERS))
        numbers = {name: tensor.numpy() for name, tensor in tensors.items()}
        if not config["format"] == header["format"] == FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {config['format']!r} and {header['format']!r}")
        if config["choice"] not in CHOICES:
            raise ValueError(f"choice must be one of {', '.join(CHOICES)}, got {config['choice']!r}")
        machine = MoleculeMachine(config["model"])
        machine.choice_, machine.errors_, machine.about = config["choice"], config["errors"], config["about"]
        machine.scaling_ = numbers["scaling"] if machine.about["task"] != "regression" else None
        check_columns(machine.about["features"])
        if machine.about["features"] != train.description.features:
            raise ValueError(f"molecules have features {train.description.features!r}")
        if (expected := len(machine.about["target_names"])) != train.num_tasks:
            raise ValueError(f"expected {expected} targets, the molecules have {train.num_tasks}")
        machine.process_ = _process(machine, train, numbers, config["num_landmarks"])
    return machine


def _process(
    machine: MoleculeMachine, train: PackedGraphs, numbers: dict[str, np.ndarray], num_landmarks: int | None
) -> GaussianProcess:
    parts = kernels_of(machine.choice_)
    for part in parts:
        fit_kernel(part, train)
    process = machine.kind(summed(parts), num_landmarks=num_landmarks)
    process.X_train_, process.landmarks_ = train, numbers.get("landmarks")
    process.count(train if process.landmarks_ is None else train[process.landmarks_], parts)
    y = targets_of(train, machine.about)
    process.n_targets_, process._single = y.shape[1], False
    process.targets_ = [process._target(parts, column, np.ones(len(y)), 1.0) for column in y.T]
    for t, target in enumerate(process.targets_):
        alpha = numbers[f"alpha.{t}"]
        if len(alpha) != len(target.rows if process.landmarks_ is None else process.landmarks_):
            raise ValueError(f"alpha of target {t} has {len(alpha)} entries, which are not those of its rows")
        target.mean, target.scale = float(numbers["mean"][t]), float(numbers["scale"][t])
        target.amplitudes, target.noise = numbers["amplitudes"][t], float(numbers["noise"][t])
        target.posterior = KnownMean(alpha)
    return process


def digest(machine: MoleculeMachine | LinearMachine) -> str:
    """SHA-256 of all that predictions depend on."""
    if isinstance(machine, LinearMachine):
        return linear_digest(machine)
    said = [machine.choice_, machine.about, machine.process_.X_train_.digest()]
    return tensor_digest(json.dumps(said, sort_keys=True), _numbers(machine))
