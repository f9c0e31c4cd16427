"""Estimators of scikit-learn as folders: models in safetensors, everything else in JSON."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.machines import LinearMachine, MoleculeMachine, save_machine
from wlkernelnn.training import Ensemble, JointModel, check_free, load_run, save_checkpoint
from wlkernelnn.training.folder import ORIGIN
from wlkernelnn.training.molecules.columns import Model
from wlkernelnn.training.molecules.joint import save_joint
from wlkernelnn.training.molecules.scoring import check_target_names
from wlkernelnn.utils.checks import plain
from wlkernelnn.utils.files import json_text, read_json, write_text

# Beside the networks in a folder: what else an estimator is.
ESTIMATOR, FORMAT = "estimator.json", "wlkernelnn.estimator/1"


class SavedEstimator(BaseEstimator, ABC):
    """An estimator that is saved as its arguments, its model, and what a subclass makes of their outputs."""

    _task: Literal["regression", "classification"]
    ensemble_: Ensemble
    machine_: MoleculeMachine | LinearMachine
    joint_: JointModel
    validation_score_: float | None

    @property
    def _fitted(self) -> Model:
        """The networks, the machine, or both."""
        if "joint_" in vars(self):
            return self.joint_
        return self.machine_ if "machine_" in vars(self) else self.ensemble_

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model into a run folder, for :meth:`load` and ``wlkernelnn predict``.

        That of a kernel machine, alone or in a joint model, holds the training molecules and their targets,
        that of a linear machine their substructures.

        Targets are called there what pandas calls them, or y, y1, …; of two classes of other names than 0 and
        1, ``y=<the second class>``, whose probability it is.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: Targets have names by which columns of predictions could not be told, or JSON cannot
                hold an argument.
            FileExistsError: The folder holds a run already.
        """
        check_is_fitted(self)
        check_target_names(self._fitted.about["target_names"])
        check_free(directory)
        arguments = self.get_params(deep=False)
        if not isinstance(arguments.get("random_state"), Integral | None):
            arguments["random_state"] = None  # a generator is no number
        state = {
            "format": FORMAT,
            "arguments": plain(arguments),
            "networks": len(self._fitted.networks) if isinstance(self._fitted, Ensemble) else 0,
            "valid": self.validation_score_,
            **self._outputs(),
        }
        try:
            text = json_text(state, indent=2)
        except TypeError as error:
            raise ValueError(f"{directory}: an argument or a class cannot be saved: {error}") from error
        if isinstance(self._fitted, Ensemble):
            for i, net in enumerate(self._fitted.networks):
                save_checkpoint(Path(directory) / f"model_{i}", net, self._fitted.about)
            if self._fitted.recalibration is not None:
                self._fitted.recalibration.save(directory)
        elif isinstance(self._fitted, JointModel):
            save_joint(directory, self._fitted)
        else:
            save_machine(directory, self._fitted)
        write_text(Path(directory) / ESTIMATOR, text)

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """The estimator that :meth:`save` wrote; a ``random_state`` that was a generator is ``None``.

        Raises:
            FileNotFoundError: The folder or a file in it is missing.
            ValueError: A file is damaged, or the model is of another task, or of a run of
                ``wlkernelnn train``, which :func:`~wlkernelnn.training.load_ensemble` reads.
        """
        path = Path(directory) / ESTIMATOR
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file; expected a folder that an estimator was saved in")
        if (Path(directory) / ORIGIN).exists():
            raise ValueError(f"{directory}: expected a folder of an estimator alone, but a run is there too")
        fitted, state = load_run(directory), read_json(path)
        if (task := fitted.about["task"]) != cls._task:
            raise ValueError(f"{directory}: expected a model for {cls._task}, got one for {task}")
        try:
            if state["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {state['format']!r}")
            number = len(fitted.networks) if isinstance(fitted, Ensemble) else 0
            if state["networks"] != number:
                raise ValueError(f"expected {state['networks']!r} networks, found {number}")
            if not isinstance(state["valid"], float | int | None):
                raise ValueError(f"valid: expected a number or null, got {state['valid']!r}")
            arguments = state["arguments"]
            if "network" in arguments:  # its name until there were machines
                arguments["model"] = arguments.pop("network")
            model = cls(**arguments)
            model.validation_score_ = state["valid"]
            if isinstance(fitted, Ensemble):
                model.ensemble_ = fitted
            elif isinstance(fitted, JointModel):
                model.joint_ = fitted
            else:
                model.machine_ = fitted
            model._set_outputs(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path}: not as an estimator is saved ({type(error).__name__}: {error})"
            ) from error
        return model

    @abstractmethod
    def _outputs(self) -> dict[str, Any]:
        """How predictions are given, as JSON."""

    @abstractmethod
    def _set_outputs(self, state: dict[str, Any]) -> None:
        """Take from a file what :meth:`_outputs` gave, if it fits the networks."""
