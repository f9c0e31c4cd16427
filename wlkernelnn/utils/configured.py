"""Models that remember the arguments they were made with, so that files can make them again."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

OF_EMBEDDINGS = (
    "num_embeddings",
    "embedding_dim",
    "padding_idx",
    "max_norm",
    "norm_type",
    "scale_grad_by_freq",
    "sparse",
)


class Configured:
    """Base of models: keeps the arguments of the constructor in :attr:`config`.

    Attributes:
        config: Every argument by name, defaults included, as JSON has it. A model among them is a dict of
            its ``kind`` and its ``arguments``. A value that JSON lacks stands there as it is.
    """

    config: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            setattr(cls, "__init__", _remembering(cls.__init__))  # noqa: B010 (mypy: not a plain attribute)


def _remembering(init: Any) -> Any:
    signature = inspect.signature(init)

    @functools.wraps(init)
    def wrapped(self: Configured, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *given = bound.arguments.items()
        # Of a constructor that calls another, the outer one ends last: its arguments are kept.
        self.config = {}
        for name, value in given:
            several = signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            self.config |= described(value if several else {name: value})

    return wrapped


def described(value: Any) -> Any:
    """``value`` as JSON has it, with models as ``{"kind", "arguments"}``."""
    if isinstance(value, Configured):
        return {"kind": type(value).__name__, "arguments": value.config}
    if isinstance(value, torch.nn.Embedding):
        frozen = {"freeze": not value.weight.requires_grad}
        return {
            "kind": "Embedding",
            "arguments": {name: getattr(value, name) for name in OF_EMBEDDINGS} | frozen,
        }
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__, "arguments": described(fields)}
    if isinstance(value, Mapping):
        return {name: described(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, torch.nn.ModuleList)):
        return [described(item) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def embedding(freeze: bool = False, **arguments: Any) -> torch.nn.Embedding:
    """Embeddings as :func:`described` describes them."""
    found = torch.nn.Embedding(**arguments)
    found.weight.requires_grad_(not freeze)
    return found


def made(value: Any, kinds: Mapping[str, Callable[..., Any]]) -> Any:
    """What :func:`described` described; models are of ``kinds``.

    Raises:
        ValueError: A model is of another kind.
        TypeError: A class does not have such arguments.
    """
    if isinstance(value, list):
        return [made(item, kinds) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {"kind", "arguments"}:
        return {name: made(item, kinds) for name, item in value.items()}
    if value["kind"] not in [*kinds]:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {value['kind']!r}")
    return kinds[value["kind"]](**made(value["arguments"], kinds))
