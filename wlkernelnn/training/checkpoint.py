"""Trained models as files: weights in safetensors, everything else in JSON."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from wlkernelnn import sequence
from wlkernelnn.datasets import Vocabulary
from wlkernelnn.models import NETWORKS, GraphKernelNetwork
from wlkernelnn.utils.checks import not_finite
from wlkernelnn.utils.configured import Configured, embedding, made
from wlkernelnn.utils.files import (
    file_digest,
    read_sealed,
    read_shapes,
    read_tensors,
    shortened,
    tensor_digest,
    write_sealed,
    write_tensors,
)

FORMAT = "wlkernelnn.checkpoint/1"
WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"
# Arguments of models that are lengths of loops, and the most that a file may ask for.
LENGTHS, LONGEST = ("num_iterations", "walk_length", "num_layers", "ngram"), 1000

#: Everything that a checkpoint may hold, by name: networks of graphs, models of strings, and their parts.
KINDS: dict[str, Callable[..., Any]] = {
    **NETWORKS,
    "Embedding": embedding,
    **{name: part for name, part in vars(sequence).items() if isinstance(part, type)},
}


def save_checkpoint(
    directory: str | os.PathLike[str],
    model: torch.nn.Module,
    about: dict[str, Any] | None = None,
    vocabulary: Vocabulary | None = None,
) -> None:
    """Write ``model.safetensors`` and ``config.json`` into a folder, which is made if it does not exist.

    Each file holds a digest of its content, and the config those of the others: :func:`load_checkpoint` tells
    what was damaged or exchanged since.

    Args:
        directory: The folder.
        model: A network of :mod:`wlkernelnn.models` (target scaling included) or a model of
            :mod:`wlkernelnn.sequence`.
        about: What else a user of the weights must know, as JSON: featurizer, target names, unit, ….
        vocabulary: The tokens of a model that reads them: written into ``vocabulary.json``, for
            :meth:`Vocabulary.load <wlkernelnn.datasets.Vocabulary.load>`.

    Raises:
        ValueError: The model, or a part of it, is of another class, or has other weights than its arguments
            make (a parametrization, for example): it could not be loaded. Or a weight is not finite, or
            ``vocabulary`` has more or fewer tokens than the model reads.
    """
    directory, kind = Path(directory), type(model).__name__
    if not isinstance(model, Configured) or KINDS.get(kind) is not type(model):
        raise ValueError(f"expected a model of {', '.join(KINDS)}, got {kind}")
    config = {"format": FORMAT, "kind": kind, "network": model.config, "about": about or {}}
    try:
        text = json.dumps(config, indent=2) + "\n"
        with torch.device("meta"):  # draws no weights
            again = made({"kind": kind, "arguments": json.loads(text)["network"]}, KINDS)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} cannot be saved: {error}") from error
    weights = model.state_dict()
    if again.state_dict().keys() != weights.keys():
        raise ValueError(f"{kind} cannot be saved: it has other weights than its arguments make")
    if name := not_finite(weights):
        raise ValueError(f"{kind} cannot be saved: {name} has values that are not finite")
    if vocabulary is not None:
        _check_vocabulary(directory / VOCABULARY, vocabulary, model)
        vocabulary.save(directory / VOCABULARY)
    files = {WEIGHTS: write_tensors(directory / WEIGHTS, weights, {"format": FORMAT})}
    if vocabulary is not None:
        files[VOCABULARY] = file_digest(directory / VOCABULARY)
    write_sealed(directory / CONFIG, json.loads(text) | {"files": files})


def load_checkpoint(directory: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model (in evaluation mode) and ``about`` of :func:`save_checkpoint`.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or has another format, its arguments or weights do not fit, or a weight
            is not finite.
    """
    directory = Path(directory)
    path, weights_path = directory / CONFIG, directory / WEIGHTS
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a folder that holds {CONFIG} and {WEIGHTS}")
    config = read_sealed(path)
    if not {"format", "network", "about"} <= set(config):
        raise ValueError(f"{path}: expected an object with format, kind, network and about")
    if config["format"] != FORMAT:
        raise ValueError(f"{path}: expected format {FORMAT}, got {config['format']!r}")
    if not isinstance(config["about"], dict):
        raise ValueError(f"{path}: expected about to be an object, got {config['about']!r}")
    kind = config.get("kind", GraphKernelNetwork.__name__)  # the first checkpoints did not name the class
    described = {"kind": kind, "arguments": config["network"]}
    shapes = read_shapes(weights_path)
    try:
        check_lengths(described)
        # Sizes are compared before there is memory for them, and nothing is built without end.
        with torch.device("meta"), at_most(100 + 30 * len(shapes)):
            model = made(described, KINDS)
            fits = {name: torch.empty(shape) for name, shape in shapes.items()}
    except Exception as error:  # of many kinds: a file can say anything
        raise ValueError(f"{path}: network: {error}") from error
    _load_weights(model, fits, weights_path, path)
    weights, _ = read_tensors(weights_path, written_digest(config, WEIGHTS, path))
    if name := not_finite(weights):
        raise ValueError(f"{weights_path}: {name} has values that are not finite")
    with torch.random.fork_rng(devices=[]):  # what is drawn later does not depend on loading
        model = made(described, KINDS)
    _load_weights(model, weights, weights_path, path)
    return model.eval(), config["about"]


def _load_weights(model: Any, weights: dict[str, torch.Tensor], path: Path, config: Path) -> None:
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        what = " ".join(str(error).split())
        raise ValueError(f"{path}: the weights don't fit {config}: {what}") from error


def check_lengths(arguments: Any) -> None:
    """Refuse arguments of models that would let loops run for hours."""
    if isinstance(arguments, list):
        for value in arguments:
            check_lengths(value)
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            if name in LENGTHS and isinstance(value, int) and value > LONGEST:
                raise ValueError(f"{name} must be at most {LONGEST:,} in a file, got {value:,}")
            check_lengths(value)


@contextmanager
def at_most(count: int) -> Iterator[None]:
    """Raise a ``ValueError`` where this thread gives modules more than so many parameters and modules."""
    thread, given = threading.get_ident(), 0

    def count_one(*_: Any) -> None:
        nonlocal given
        given += threading.get_ident() == thread
        if given > count:
            raise ValueError(f"the arguments make more than {count:,} parts: there are not so many weights")

    handles = [
        torch.nn.modules.module.register_module_parameter_registration_hook(count_one),
        torch.nn.modules.module.register_module_module_registration_hook(count_one),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def written_digest(config: Mapping[str, Any], name: str, path: Path) -> str | None:
    """The digest of a file that a config says was written with it; ``None`` in those of earlier versions."""
    files = config.get("files", {})
    if not isinstance(files, dict):
        raise ValueError(f"{path}: files: expected an object, got {shortened(files)}")
    return files.get(name)


def load_vocabulary(directory: str | os.PathLike[str], model: torch.nn.Module) -> Vocabulary:
    """The vocabulary that :func:`save_checkpoint` wrote beside a model.

    Raises:
        FileNotFoundError: There is none.
        ValueError: The file is damaged or another one, or has other tokens than the model.
    """
    path, config = Path(directory) / VOCABULARY, Path(directory) / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the vocabulary of the model")
    written = written_digest(read_sealed(config), VOCABULARY, config) if config.is_file() else None
    if written not in (None, file_digest(path)):
        raise ValueError(f"{path}: damaged, or another file than the one written with {config}")
    vocabulary = Vocabulary.load(path)
    _check_vocabulary(path, vocabulary, model)
    return vocabulary


def digest(model: Any) -> str:
    """SHA-256 of a model's arguments and weights."""
    weights = {name: tensor.cpu() for name, tensor in model.state_dict().items()}
    return tensor_digest(json.dumps(model.config, sort_keys=True), weights)


def _check_vocabulary(path: Path, vocabulary: Vocabulary, model: torch.nn.Module) -> None:
    embedding = getattr(model, "embedding", None)
    known = embedding.num_embeddings if isinstance(embedding, torch.nn.Embedding) else 0
    if len(vocabulary) != known:
        raise ValueError(f"{path}: a vocabulary of {len(vocabulary):,} tokens, but the model reads {known:,}")
