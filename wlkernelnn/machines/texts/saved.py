"""Machines of texts as folders: numbers in safetensors, everything else in JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from sklearn.exceptions import NotFittedError

from wlkernelnn.utils.checks import check_count
from wlkernelnn.utils.files import (
    as_tensors,
    file_digest,
    read_json,
    read_sealed,
    read_tensors,
    tensor_digest,
    understood,
    write_sealed,
    write_tensors,
    write_text,
)

from .machine import TextMachine

FORMAT = "wlkernelnn.texts/1"
CONFIG, NUMBERS, RUNS, README = "config.json", "model.safetensors", "runs.json", "README"
_KEPT = """A machine of texts of wlkernelnn.

It knows the runs of words and of characters of the texts that it was fitted to: runs.json holds those that
at least min_count of them have (see config.json). Predictions and the page beside it show whole texts. If the
texts are confidential, so is the folder.
"""


def is_text_machine(directory: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a :class:`TextMachine`."""
    path = Path(directory) / CONFIG
    config = read_json(path) if path.is_file() else None
    return isinstance(config, dict) and config.get("format") == FORMAT


def save_text_machine(directory: str | os.PathLike[str], machine: TextMachine) -> None:
    """Write a fitted machine into a folder.

    Raises:
        NotFittedError: ``fit`` has not been called.
    """
    if not hasattr(machine, "weights_"):
        raise NotFittedError("this TextMachine has not been fitted: nothing can be saved")
    directory, spectrum = Path(directory), machine.spectrum_
    directory.mkdir(parents=True, exist_ok=True)
    write_text(directory / RUNS, json.dumps(spectrum.runs_, ensure_ascii=False) + "\n")
    files = {
        NUMBERS: write_tensors(directory / NUMBERS, _tensors(machine), {"format": FORMAT}),
        RUNS: file_digest(directory / RUNS),
    }
    write_text(directory / README, _KEPT)
    config = {
        "format": FORMAT,
        "level": spectrum.level,
        "ngram": spectrum.ngram,
        "min_count": spectrum.min_count,
        "penalty": machine.penalty_,
        "errors": machine.errors_,
        "accuracy": machine.accuracy_,
        "about": machine.about,
        "files": files,
    }
    write_sealed(directory / CONFIG, config)  # last: a folder with a config is finished


def load_text_machine(directory: str | os.PathLike[str]) -> TextMachine:
    """The machine that :func:`save_text_machine` wrote: it predicts the same numbers.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or has another format, or files do not go together.
    """
    directory = Path(directory)
    config = read_sealed(directory / CONFIG)
    with understood(directory, "a machine is saved"):
        if config["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {config['format']!r}")
        machine = TextMachine(config["level"], config["ngram"], config["min_count"])
        if file_digest(directory / RUNS) != config["files"][RUNS]:
            raise ValueError(f"{RUNS} is not what was written there (another digest)")
        machine.about, machine.penalty_ = config["about"], float(config["penalty"])
        machine.accuracy_ = config["accuracy"]
        machine.errors_ = {float(penalty): error for penalty, error in config["errors"].items()}
        tensors, _ = read_tensors(directory / NUMBERS, config["files"][NUMBERS])
        spectrum, runs = machine.spectrum_, read_json(directory / RUNS)
        spectrum.runs_ = {part: [*map(str, runs[part])] for part in spectrum.parts}
        spectrum.idf_ = tensors["idf"].numpy()
        machine.weights_, machine.intercept_ = tensors["weights"].numpy(), tensors["intercept"].numpy()
        size, classes = sum(map(len, spectrum.runs_.values())), len(machine.about["classes"])
        shapes = (spectrum.idf_.shape, machine.weights_.shape, machine.intercept_.shape)
        if shapes != (expected := ((size,), (size, classes), (classes,))):
            raise ValueError(f"idf, weights and intercept must be {expected}, got {shapes}")
        for name, value in (("level", spectrum.level), ("task", "classification")):
            if machine.about[name] != value:
                raise ValueError(f"about.{name}: expected {value!r}, got {machine.about[name]!r}")
        (_,) = machine.about["target_names"]
        if (longest := machine.about["max_length"]) is not None:
            check_count("about.max_length", longest)
    return machine


def text_digest(machine: TextMachine) -> str:
    """SHA-256 of all that predictions depend on."""
    spectrum = machine.spectrum_
    said = [spectrum.level, spectrum.ngram, machine.about, spectrum.runs_]
    return tensor_digest(json.dumps(said, sort_keys=True), _tensors(machine))


def _tensors(machine: TextMachine) -> dict[str, torch.Tensor]:
    numbers = {"idf": machine.spectrum_.idf_, "weights": machine.weights_, "intercept": machine.intercept_}
    return as_tensors(numbers)
