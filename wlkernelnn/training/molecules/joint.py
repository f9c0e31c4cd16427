"""A machine and networks that predict together, weighted by how well each predicts molecules left out."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, logit, softmax

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import LinearMachine, MoleculeMachine, load_machine, save_machine
from wlkernelnn.training.checkpoint import save_checkpoint
from wlkernelnn.training.classes import of_all_classes
from wlkernelnn.training.folder import JOINT_FILE, MACHINE, NETWORKS, network_folders
from wlkernelnn.utils.files import read_sealed, understood, write_sealed

from .ensemble import Ensemble, load_ensemble

FORMAT = "wlkernelnn.joint/1"
# Probabilities of networks are rounded to 0 and 1 where these are near.
_LEAST = 1e-6


@dataclass
class JointModel:
    r"""A machine and networks of the same targets.

    .. math::
        f(G) = (1 - w) \, f_{\text{machine}}(G) + w \, f_{\text{networks}}(G)

    with a share :math:`0 \le w \le 1` of each target; of classes the f are log-odds, of more than two
    logarithms of their probabilities, up to a constant. It is the share of least
    squared error (of classes, of least log loss) of predictions of molecules that neither part was fitted to.

    Attributes:
        machine: Fitted to all training molecules.
        ensemble: Networks trained on the same molecules.
        share: w of each target, ``[T]``.
        inflation: The deviation of a new measurement in units of the machine's, ``[T]``, so that errors of
            molecules left out have the size that they should have; 1 of classes.
    """

    machine: MoleculeMachine | LinearMachine
    ensemble: Ensemble
    share: np.ndarray
    inflation: np.ndarray

    @property
    def about(self) -> dict[str, Any]:
        """That of the machine."""
        return self.machine.about

    @property
    def task(self) -> str:
        return str(self.about["task"])

    @property
    def num_parameters(self) -> int:
        """Those of both parts, and the shares."""
        return self.machine.num_parameters + self.ensemble.num_parameters + len(self.share)

    @overload
    def predict(self, data: PackedGraphs, return_std: Literal[False] = False) -> np.ndarray: ...
    @overload
    def predict(self, data: PackedGraphs, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...
    def predict(self, data: PackedGraphs, return_std: bool = False) -> Any:
        """Values in the unit of the targets, or probabilities of class 1, float64 ``[len(data), T]``; of more
        than two classes the probability of each, ``[len(data), C]``.

        Args:
            data: Molecules with the features of the training.
            return_std: Also give the standard deviation of a new measurement, in the same shape; classes have
                none.

        Raises:
            ValueError: ``data`` have other features, or ``return_std`` is set for classes.
        """
        networks = self.ensemble.predict(data)[0]
        if not return_std:
            return joined(self.machine.predict(data), networks, self.share, self.task)
        mean, std = self.machine.predict(data, return_std=True)
        return joined(mean, networks, self.share, self.task), std * self.inflation

    def of_networks(self, data: PackedGraphs) -> np.ndarray:
        """What networks add: w times their values, or their log-odds, float64 ``[len(data), T]``."""
        return np.asarray(self.share * _linear(self.ensemble.predict(data)[0], self.task))

    def digest(self) -> str:
        """SHA-256 of the weights."""
        return hashlib.sha256(np.stack([self.share, self.inflation]).tobytes()).hexdigest()


def joined(machine: np.ndarray, networks: np.ndarray, share: np.ndarray | float, task: str) -> np.ndarray:
    """The prediction of both, from those of each ``[n, T]``, or of all classes ``[n, C]``."""
    value = (1 - share) * _linear(machine, task) + share * _linear(networks, task)
    if task == "multiclass":
        return np.asarray(softmax(value, axis=1))
    return np.asarray(expit(value) if task == "classification" else value)


def _linear(prediction: np.ndarray, task: str) -> np.ndarray:
    prediction = prediction.astype(np.float64)
    if task == "regression":
        return prediction
    prediction = np.clip(prediction, _LEAST, 1 - _LEAST)
    return np.log(prediction) if task == "multiclass" else logit(prediction)


def _log_loss(w: float, machine: np.ndarray, networks: np.ndarray, label: np.ndarray, task: str) -> float:
    """Of one target, with a share w of the networks."""
    probability = of_all_classes(joined(machine, networks, w, task))
    return -float(np.log(probability[np.arange(len(label)), label]).mean())


def best_share(y: np.ndarray, machine: np.ndarray, networks: np.ndarray, task: str) -> np.ndarray:
    """The share of networks of each target, ``[T]``: see :class:`JointModel`.

    Args:
        y: Targets ``[n, T]``, NaN where one is missing.
        machine, networks: What both predict of these molecules, which they were not fitted to, ``[n, T]`` or
            ``[n, C]``.
        task: Of the targets.
    """
    shares = []
    for t, target in enumerate(y.T):
        known = ~np.isnan(target)
        outputs = slice(None) if task == "multiclass" else [t]
        one, other, target = machine[known][:, outputs], networks[known][:, outputs], target[known]
        if task == "regression":
            step = (other - one)[:, 0]
            squares = step @ step
            shares.append(float(np.clip((target - one[:, 0]) @ step / squares, 0, 1)) if squares else 0.0)
            continue
        loss = partial(_log_loss, machine=one, networks=other, label=target.astype(int), task=task)
        inside = float(minimize_scalar(loss, bounds=(0, 1), method="bounded").x)
        shares.append(min(0.0, 1.0, inside, key=loss))
    return np.array(shares)


def is_joint(directory: str | os.PathLike[str]) -> bool:
    """Whether a folder holds a joint model."""
    return (Path(directory) / JOINT_FILE).is_file()


def save_joint(directory: str | os.PathLike[str], model: JointModel) -> None:
    """Write both parts into folders in a folder, and the weights; networks that lie there are kept."""
    directory = Path(directory)
    save_machine(directory / MACHINE, model.machine)
    if not network_folders(directory / NETWORKS):
        for i, net in enumerate(model.ensemble.networks):
            save_checkpoint(directory / NETWORKS / f"model_{i}", net, model.ensemble.about)
    config = {"format": FORMAT, "share": model.share.tolist(), "inflation": model.inflation.tolist()}
    write_sealed(directory / JOINT_FILE, config)  # last: a folder with a config is finished


def load_joint(directory: str | os.PathLike[str]) -> JointModel:
    """The model that :func:`save_joint` wrote.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged, or parts do not go together.
    """
    directory = Path(directory)
    machine, ensemble = load_machine(directory / MACHINE), load_ensemble(directory / NETWORKS)
    config = read_sealed(directory / JOINT_FILE)
    with understood(directory / JOINT_FILE, "a joint model is saved"):
        if config["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {config['format']!r}")
        numbers = [np.array(config[name], dtype=np.float64) for name in ("share", "inflation")]
        for name in ("features", "target_names", "task", "classes"):
            if machine.about.get(name) != ensemble.about.get(name):
                raise ValueError(f"{name}: the machine has {machine.about.get(name)!r}, the networks others")
        if any(values.shape != (len(machine.about["target_names"]),) for values in numbers):
            raise ValueError(f"expected numbers of {len(machine.about['target_names'])} targets")
    return JointModel(machine, ensemble, *numbers)
