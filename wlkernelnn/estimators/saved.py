"""Estimators of scikit-learn as folders: models in safetensors, everything else in JSON."""

from __future__ import annotations

import inspect
import os
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets.graphs.description import SEVERAL_CLASSES
from wlkernelnn.training import check_free
from wlkernelnn.training.checkpoint import CONFIG
from wlkernelnn.training.folder import ESTIMATOR, MACHINE_FILES, ORIGIN
from wlkernelnn.utils.checks import plain
from wlkernelnn.utils.files import json_text, read_sealed, understood, write_sealed

FORMAT = "wlkernelnn.estimator/1"
# Initial weights and dropout are drawn from torch's one generator: threads train one after the other.
_training = threading.Lock()


@contextmanager
def training() -> Iterator[Path]:
    """A run folder for a training in the block; a seed that was set draws on as if there had been none."""
    with _training, torch.random.fork_rng(devices=[]), TemporaryDirectory() as directory:
        yield Path(directory) / "run"


def more_options(
    estimator: BaseEstimator, argument: str, known: set[str], own: Collection[str]
) -> dict[str, Any]:
    """The options in an ``argument`` that is a mapping; those that are arguments themselves are refused."""
    given = getattr(estimator, argument) or {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{argument} must be a dict of options, got {given!r}")
    for name in given:
        if name in own:
            instead = "random_state" if name == "seed" else name
            raise ValueError(f"{argument}: {name} is set by the argument {instead}")
        if name not in known:
            options = ", ".join(sorted(known - {*own}))
            raise ValueError(f"{argument}: unknown option {name}; known are {options}")
    return {**given}


class SavedEstimator(BaseEstimator, ABC):
    """An estimator that is saved as its arguments, its model, and what a subclass makes of their outputs."""

    _task: str
    #: The attribute that holds a model of each class.
    _holders: ClassVar[dict[type, str]]
    validation_score_: float | None

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model into a run folder, for :meth:`load` and the verbs of the command line.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: JSON cannot hold an argument or a class.
            FileExistsError: The folder holds a run already, or a file that is none of a model and would be
                overwritten.
        """
        check_is_fitted(self)
        networks = self._num_networks(self._fitted)
        check_free(directory, *((CONFIG,) if networks else MACHINE_FILES))
        arguments = {
            name: os.fspath(value) if isinstance(value, os.PathLike) else value
            for name, value in self.get_params(deep=False).items()
        }
        if not isinstance(arguments.get("random_state"), Integral | None):
            arguments["random_state"] = None  # a generator is no number
        if isinstance(weights := arguments.get("class_weight"), Mapping):
            arguments["class_weight"] = [*weights.items()]  # JSON has no keys but texts
        state = {
            "format": FORMAT,
            "arguments": plain(arguments),
            "networks": networks,
            "valid": self.validation_score_,
            **self._outputs(),
        }
        try:
            json_text(state)
        except TypeError as error:
            raise ValueError(f"{directory}: an argument or a class cannot be saved: {error}") from error
        self._save_model(Path(directory))
        write_sealed(Path(directory) / ESTIMATOR, state)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """The estimator that :meth:`save` wrote; a ``random_state`` that was a generator is ``None``.

        Raises:
            FileNotFoundError: The folder or a file in it is missing.
            ValueError: A file is damaged, or the model is of another task or of other input, or of a run of
                the command line, which :func:`~wlkernelnn.training.load_run` and
                :func:`~wlkernelnn.training.load_string_run` read.
        """
        path = Path(directory) / ESTIMATOR
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: no such file; expected a folder that an estimator was saved in "
                "(load_run and load_string_run of wlkernelnn.training read those of the command line)"
            )
        if (Path(directory) / ORIGIN).exists():
            raise ValueError(f"{directory}: expected a folder of an estimator alone, but a run is there too")
        fitted, state = cls._load_model(Path(directory)), read_sealed(path)
        task = fitted.about["task"]
        if (task if task not in SEVERAL_CLASSES else "classification") != cls._task:
            raise ValueError(f"{directory}: expected a model for {cls._task}, got one for {task}")
        with understood(path, "an estimator is saved"):
            if state["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {state['format']!r}")
            if state["networks"] != (number := cls._num_networks(fitted)):
                raise ValueError(f"expected {state['networks']!r} networks, found {number}")
            if not isinstance(state["valid"], float | int | None):
                raise ValueError(f"valid: expected a number or null, got {state['valid']!r}")
            arguments = cls._renamed(state["arguments"])
            if isinstance(weights := arguments.get("class_weight"), list):
                arguments["class_weight"] = dict(weights)
            model = cls(**arguments)
            model.validation_score_ = state["valid"]
            model._take(fitted)
            model._set_outputs(state)
        return model

    def _warn(self, arguments: Sequence[str], why: str, depth: int = 5) -> None:
        """Name arguments that were given and do nothing; the user is so many calls above."""
        parameters = inspect.signature(type(self)).parameters
        own = [name for name in arguments if name in parameters]
        if idle := [name for name in own if getattr(self, name) != parameters[name].default]:
            warnings.warn(f"{', '.join(idle)}: {why} ignores", stacklevel=depth)

    @classmethod
    def _renamed(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Arguments by the names that they have now."""
        return arguments

    @property
    def _fitted(self) -> Any:
        """The model, with ``about``."""
        (name,) = {*self._holders.values()} & {*vars(self)}
        return vars(self)[name]

    def _take(self, fitted: Any) -> None:
        """Keep a model, and forget that of an earlier fit."""
        for name in self._holders.values():
            self.__dict__.pop(name, None)
        setattr(self, self._holders[type(fitted)], fitted)

    @abstractmethod
    def _save_model(self, directory: Path) -> None:
        """Write the model into a folder."""

    @classmethod
    @abstractmethod
    def _load_model(cls, directory: Path) -> Any:
        """The model in a folder."""

    @staticmethod
    @abstractmethod
    def _num_networks(fitted: Any) -> int:
        """How many networks it has: some may be missing in a folder."""

    @abstractmethod
    def _outputs(self) -> dict[str, Any]:
        """How predictions are given, as JSON."""

    @abstractmethod
    def _set_outputs(self, state: dict[str, Any]) -> None:
        """Take from a file what :meth:`_outputs` gave, if it fits the networks."""
