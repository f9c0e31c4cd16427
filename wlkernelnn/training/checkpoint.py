"""Trained models as files: weights in safetensors, everything else in JSON."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch

from wlkernelnn import sequence
from wlkernelnn.datasets import Vocabulary
from wlkernelnn.models import NETWORKS, GraphKernelNetwork
from wlkernelnn.utils.configured import Configured, made
from wlkernelnn.utils.files import read_json, read_tensors, write_tensors, write_text

FORMAT = "wlkernelnn.checkpoint/1"
WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"

#: Everything that a checkpoint may hold, by name: networks of graphs, models of strings, and their parts.
KINDS: dict[str, type] = {
    **NETWORKS,
    "Embedding": torch.nn.Embedding,
    **{name: part for name, part in vars(sequence).items() if isinstance(part, type)},
}


def save_checkpoint(
    directory: str | os.PathLike[str],
    model: torch.nn.Module,
    about: dict[str, Any] | None = None,
    vocabulary: Vocabulary | None = None,
) -> None:
    """Write ``model.safetensors`` and ``config.json`` into a folder, which is made if it does not exist.

    Args:
        directory: The folder.
        model: A network of :mod:`wlkernelnn.models` (target scaling included) or a model of
            :mod:`wlkernelnn.sequence`.
        about: What else a user of the weights must know, as JSON: featurizer, target names, unit, ….
        vocabulary: The tokens of a model that reads them: written into ``vocabulary.json``, for
            :meth:`Vocabulary.load <wlkernelnn.datasets.Vocabulary.load>`.

    Raises:
        ValueError: The model, or a part of it, is of another class, or has other weights than its arguments
            make (a parametrization, for example): it could not be loaded. Or ``vocabulary`` has more or fewer
            tokens than the model reads.
    """
    directory, kind = Path(directory), type(model).__name__
    if not isinstance(model, Configured) or KINDS.get(kind) is not type(model):
        raise ValueError(f"expected a model of {', '.join(KINDS)}, got {kind}")
    config = {"format": FORMAT, "kind": kind, "network": model.config, "about": about or {}}
    try:
        text = json.dumps(config, indent=2) + "\n"
        with torch.random.fork_rng(devices=[]):
            again = made({"kind": kind, "arguments": json.loads(text)["network"]}, KINDS)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{kind} cannot be saved: {error}") from error
    if again.state_dict().keys() != model.state_dict().keys():
        raise ValueError(f"{kind} cannot be saved: it has other weights than its arguments make")
    if vocabulary is not None:
        _check_vocabulary(directory / VOCABULARY, vocabulary, model)
        vocabulary.save(directory / VOCABULARY)
    write_tensors(directory / WEIGHTS, model.state_dict(), {"format": FORMAT})
    write_text(directory / CONFIG, text)


def load_checkpoint(directory: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The model (in evaluation mode) and ``about`` of :func:`save_checkpoint`.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged or has another format, or its arguments or weights do not fit.
    """
    directory = Path(directory)
    path = directory / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected a folder that holds {CONFIG} and {WEIGHTS}")
    config = read_json(path)
    if not isinstance(config, dict) or not {"format", "network", "about"} <= set(config):
        raise ValueError(f"{path}: expected an object with format, kind, network and about")
    if config["format"] != FORMAT:
        raise ValueError(f"{path}: expected format {FORMAT}, got {config['format']!r}")
    if not isinstance(config["about"], dict):
        raise ValueError(f"{path}: expected about to be an object, got {config['about']!r}")
    kind = config.get("kind", GraphKernelNetwork.__name__)  # the first checkpoints did not name the class
    try:
        model = made({"kind": kind, "arguments": config["network"]}, KINDS)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: network: {error}") from error
    weights, _ = read_tensors(directory / WEIGHTS)
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        what = " ".join(str(error).split())
        raise ValueError(f"{directory / WEIGHTS}: the weights don't fit {path}: {what}") from error
    return model.eval(), config["about"]


def load_vocabulary(directory: str | os.PathLike[str], model: torch.nn.Module) -> Vocabulary:
    """The vocabulary that :func:`save_checkpoint` wrote beside a model.

    Raises:
        FileNotFoundError: There is none.
        ValueError: The file is damaged, or has other tokens than the model.
    """
    path = Path(directory) / VOCABULARY
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the vocabulary of the model")
    vocabulary = Vocabulary.load(path)
    _check_vocabulary(path, vocabulary, model)
    return vocabulary


def digest(model: Any) -> str:
    """SHA-256 of a model's arguments and weights."""
    result = hashlib.sha256(json.dumps(model.config, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        result.update(name.encode())
        result.update(tensor.cpu().contiguous().numpy().tobytes())
    return result.hexdigest()


def _check_vocabulary(path: Path, vocabulary: Vocabulary, model: torch.nn.Module) -> None:
    embedding = getattr(model, "embedding", None)
    known = embedding.num_embeddings if isinstance(embedding, torch.nn.Embedding) else 0
    if len(vocabulary) != known:
        raise ValueError(f"{path}: a vocabulary of {len(vocabulary):,} tokens, but the model reads {known:,}")
