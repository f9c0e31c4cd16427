"""What estimators of molecules share: SMILES in, a kernel machine or networks trained on them."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
import torch
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import MoleculeMachine
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import Ensemble, FitOptions, train_joint, train_run
from wlkernelnn.training.molecules.columns import kernel_machine, nearest
from wlkernelnn.training.molecules.machine import JOINT, MACHINES, features_for, left_out_score, machine_named
from wlkernelnn.utils.checks import check_one_of

from .data import molecules_of, train_and_valid
from .saved import SavedEstimator

# Arguments of networks that the molecules and their targets give.
_OF_DATA = ("node_dims", "num_edge_types", "num_tasks", "task", "num_node_values", "num_graph_values")
MODELS = (*MACHINES, *SHORT_NAMES, *JOINT)
# Arguments that networks alone have.
OF_NETWORKS = (
    *(
        "ensemble_size",
        "hidden_channels",
        "dropout",
        "epochs",
        "batch_size",
        "lr",
        "weight_decay",
        "patience",
    ),
    *("validation_fraction", "network_options", "fit_options"),
)
# Initial weights and dropout are drawn from torch's one generator: threads train one after the other.
_training = threading.Lock()


class MoleculeEstimator(SavedEstimator):
    """What regression and classification share.

    The arguments are said in :class:`MoleculeRegressor`.
    """

    _metric: str

    def __init__(
        self,
        model: Literal[
            "auto", "gp", "linear", "wl", "stack", "gp+wl", "gp+stack", "linear+wl", "linear+stack"
        ] = "auto",
        *,
        features: str | None = None,
        ensemble_size: int = 1,
        hidden_channels: int | None = None,
        dropout: float = 0.0,
        epochs: int = FitOptions.epochs,
        batch_size: int = FitOptions.batch_size,
        lr: float = FitOptions.lr,
        weight_decay: float = FitOptions.weight_decay,
        patience: int = FitOptions.patience,
        validation_fraction: float = 0.1,
        network_options: Mapping[str, Any] | None = None,
        fit_options: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        progress: bool = False,
    ) -> None:
        self.model = model
        self.features = features
        self.ensemble_size = ensemble_size
        self.hidden_channels = hidden_channels
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.network_options = network_options
        self.fit_options = fit_options
        self.random_state = random_state
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def _fit(self, X: Any, y: np.ndarray, names: Sequence[str]) -> None:
        """Train on targets ``[n, T]``, NaN where one is missing."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        check_one_of("model", self.model, MODELS)
        if self.model in MACHINES:
            self._fit_machine(X, y, names, seed)
        elif self.model in JOINT:
            self._fit_joint(X, y, names, seed)
        else:
            self._fit_networks(X, y, names, seed)

    def _fit_machine(self, X: Any, y: np.ndarray, names: Sequence[str], seed: int) -> None:
        self._warn(OF_NETWORKS, "arguments of networks (model='wl' or 'stack'), which the machine")
        machine, features = machine_named(self.model, seed), features_for(self.model, self.features)
        if isinstance(machine, MoleculeMachine):
            machine.num_landmarks(*y.shape)  # too little memory is said before molecules are read
        machine.fit(self._data(X, y, features, target_names=tuple(names)))
        self._forget()
        self.machine_ = machine
        self.validation_score_: float | None = left_out_score(machine, self._metric, y)

    def _fit_joint(self, X: Any, y: np.ndarray, names: Sequence[str], seed: int) -> None:
        self._warn(["validation_fraction"], "networks train to their last epoch, which the joint model")
        options, network = self._options(seed), self._network()
        data = self._data(X, y, features_for(self.model, self.features))
        with _training, torch.random.fork_rng(devices=[]), TemporaryDirectory() as directory:
            joint, report = train_joint(
                data,
                {"train": np.arange(len(data))},
                Path(directory) / "run",
                options,
                model=self.model,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        for part in (joint.machine, joint.ensemble):
            part.about["target_names"] = [*names]
        self._forget()
        self.joint_ = joint
        self.validation_score_ = report["left_out"]

    def _warn(self, arguments: Sequence[str], why: str) -> None:
        """Name arguments that were given and do nothing."""
        parameters = inspect.signature(type(self)).parameters
        if idle := [name for name in arguments if getattr(self, name) != parameters[name].default]:
            warnings.warn(f"{', '.join(idle)}: {why} of model={self.model!r} ignores", stacklevel=5)

    def _forget(self) -> None:
        """The model of an earlier fit."""
        for name in ("machine_", "ensemble_", "joint_"):
            self.__dict__.pop(name, None)

    def _fit_networks(self, X: Any, y: np.ndarray, names: Sequence[str], seed: int) -> None:
        options, network = self._options(seed), self._network()
        # Names are those of files of predictions, and there are no such files here.
        data = self._data(X, y, self.features or "ogb")
        split_idx = train_and_valid(data, self.validation_fraction, seed)
        # Whoever has set a seed goes on drawing as if nothing had been trained.
        with _training, torch.random.fork_rng(devices=[]), TemporaryDirectory() as directory:
            ensemble, report = train_run(
                data,
                split_idx,
                Path(directory) / "run",
                options,
                kind=SHORT_NAMES[self.model].__name__,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        ensemble.about["target_names"] = [*names]
        self._forget()
        self.ensemble_ = ensemble
        self.validation_score_ = report.get("valid")

    def _data(self, X: Any, y: np.ndarray, features: str, **description: Any) -> PackedGraphs:
        unknown = np.flatnonzero(np.isnan(y).all(axis=1))
        if len(unknown):
            raise ValueError(
                f"y: {len(unknown):,} rows have no target, the first is data row {unknown[0] + 1}"
            )
        return molecules_of(X, features).with_targets(y, task=self._task, metric=self._metric, **description)

    def _predict(self, X: Any) -> np.ndarray:
        """Values or probabilities, ``[n, T]``."""
        check_is_fitted(self)
        data = molecules_of(X, self._fitted.about["features"])
        model = self._fitted
        return model.predict(data)[0] if isinstance(model, Ensemble) else model.predict(data)

    def nearest(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """How similar the most similar training molecule is, of a kernel machine.

        Args:
            X: SMILES ``[n]``.

        Returns:
            The similarity, from 0 to 1, and the position of that molecule in the ``X`` of ``fit``, ``[n]``
            each; see :meth:`MoleculeMachine.nearest`. Where it is 0 no substructure is
            shared: kernels then predict their mean with the deviation of the prior, and a warning says so.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: X is not a list of SMILES, one gives no molecule, or the model is a
                network.
        """
        check_is_fitted(self)
        if (machine := kernel_machine(self._fitted)) is None:
            raise ValueError(f"nearest: a kernel machine compares molecules, model={self.model!r} does not")
        return nearest(machine, molecules_of(X, machine.about["features"]))

    def _options(self, seed: int) -> FitOptions:
        own = ("epochs", "batch_size", "lr", "weight_decay", "patience")
        more = self._more("fit_options", {field.name for field in fields(FitOptions)}, (*own, "seed"))
        return FitOptions(seed=seed, **{name: getattr(self, name) for name in own}, **more)

    def _network(self) -> dict[str, Any]:
        kind = SHORT_NAMES[self.model.rpartition("+")[2]]
        known = set(inspect.signature(kind).parameters) - {*_OF_DATA}
        more = self._more("network_options", known, ("hidden_channels", "dropout"))
        width = {} if self.hidden_channels is None else {"hidden_channels": self.hidden_channels}
        options = {"dropout": self.dropout, **width, **more}
        kind.check_arguments(**options)
        return options

    def _more(self, argument: str, known: set[str], own: Collection[str]) -> dict[str, Any]:
        """Further options; those that are arguments here are refused."""
        given = getattr(self, argument) or {}
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
