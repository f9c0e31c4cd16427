"""What estimators of molecules share: SMILES in, a kernel machine or networks trained on them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.machines import LinearMachine, MoleculeMachine, save_machine
from wlkernelnn.models import SHORT_NAMES
from wlkernelnn.training import Ensemble, FitOptions, JointModel, load_run, train_joint, train_run
from wlkernelnn.training.molecules.columns import Model, kernel_machine, levels_of, nearest
from wlkernelnn.training.molecules.joint import save_joint
from wlkernelnn.training.molecules.machine import JOINT, MACHINES, features_for, left_out_score, machine_named
from wlkernelnn.training.molecules.scoring import check_target_names
from wlkernelnn.training.options import ModelName
from wlkernelnn.utils.checks import check_one_of

from .data import molecules_of, target_frame, train_and_valid
from .saved import SavedEstimator, more_options, training

# Arguments of networks that the molecules and their targets give.
_OF_DATA = (
    "node_dims",
    "num_edge_types",
    "num_tasks",
    "task",
    "num_node_values",
    "num_graph_values",
    "in_channels",
    "edge_values",
)
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
    *("validation_fraction", "network_options", "fit_options", "class_weight"),
)


@dataclass(eq=False, repr=False)
class _Arguments:
    """The arguments of all estimators of molecules; :class:`MoleculeRegressor` says what they are."""

    model: ModelName = "auto"
    _: KW_ONLY
    features: str | None = None
    ensemble_size: int = 1
    hidden_channels: int | None = None
    dropout: float = 0.0
    epochs: int = FitOptions.epochs
    batch_size: int = FitOptions.batch_size
    lr: float = FitOptions.lr
    weight_decay: float = FitOptions.weight_decay
    patience: int = FitOptions.patience
    validation_fraction: float = 0.1
    network_options: Mapping[str, Any] | None = None
    fit_options: Mapping[str, Any] | None = None
    random_state: int | np.random.RandomState | None = None
    progress: bool = False


class MoleculeEstimator(_Arguments, SavedEstimator):
    """What regression and classification share."""

    _metric: str
    _holders: ClassVar[dict[type, str]] = {
        Ensemble: "ensemble_",
        MoleculeMachine: "machine_",
        LinearMachine: "machine_",
        JointModel: "joint_",
    }
    ensemble_: Ensemble
    machine_: MoleculeMachine | LinearMachine
    joint_: JointModel

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        tags.target_tags.multi_output = True
        return tags

    def _true(self, X: Any, y: ArrayLike) -> pd.DataFrame:
        """The targets to score against; those that are called as in ``fit`` in the order of the model.

        Raises:
            ValueError: Some are called so, and others are not.
        """
        frame, names = target_frame(y, X), self._fitted.about["target_names"]
        if {*frame.columns} == {*names}:
            return frame[names]
        if known := {*frame.columns} & {*names}:
            raise ValueError(f"y: expected the columns {names}, as {sorted(known)}, got {[*frame.columns]}")
        return frame

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the model into a run folder, for :meth:`load` and ``wlkernelnn predict``.

        That of a kernel machine, alone or in a joint model, holds the training molecules and their targets,
        that of a linear machine their substructures.

        Targets are called there what pandas calls them, or y, y1, …; of two classes of other names than 0 and
        1, ``y=<the second class>``, whose probability it is. Of more classes predictions have their names.

        Raises:
            NotFittedError: ``fit`` has not been called.
            ValueError: Targets have names by which columns of predictions could not be told, or JSON cannot
                hold an argument.
            FileExistsError: The folder holds a run already.
        """
        check_is_fitted(self)
        about = self._fitted.about
        check_target_names(about["target_names"], about.get("classes", ()), levels_of(self._fitted))
        super().save(directory)

    def _save_model(self, directory: Path) -> None:
        if isinstance(self._fitted, Ensemble):
            self._fitted.save(directory)
        elif isinstance(self._fitted, JointModel):
            save_joint(directory, self._fitted)
        else:
            save_machine(directory, self._fitted)

    @classmethod
    def _load_model(cls, directory: Path) -> Model:
        return load_run(directory)

    @staticmethod
    def _num_networks(fitted: Model) -> int:
        return len(fitted.networks) if isinstance(fitted, Ensemble) else 0

    @classmethod
    def _renamed(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        if "network" in arguments:  # its name until there were machines
            arguments["model"] = arguments.pop("network")
        return arguments

    def _fit(
        self,
        X: Any,
        y: np.ndarray,
        names: Sequence[str],
        devices: int,
        classes: Sequence[str] = (),
        class_weight: Literal["balanced"] | list[float] | None = None,
    ) -> None:
        """Train on targets ``[n, T]``, NaN where one is missing; ``classes`` are names of more than two."""
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        check_one_of("model", self.model, get_args(ModelName))
        if self.model in MACHINES:
            if devices != 1:
                raise ValueError(
                    f"devices={devices}: the machine of model={self.model!r} trains in one process"
                )
            self._fit_machine(X, y, names, seed, classes)
        elif self.model in JOINT:
            self._fit_joint(X, y, names, self._options(seed, devices, class_weight), classes)
        else:
            self._fit_networks(X, y, names, self._options(seed, devices, class_weight), classes)

    def _fit_machine(
        self, X: Any, y: np.ndarray, names: Sequence[str], seed: int, classes: Sequence[str]
    ) -> None:
        why = f"arguments of networks (model='wl' or 'stack'), which the machine of model={self.model!r}"
        self._warn(OF_NETWORKS, why)
        machine, features = machine_named(self.model, seed), features_for(self.model, self.features)
        if isinstance(machine, MoleculeMachine):
            # Before molecules are read: is there memory for them?
            machine.num_landmarks(len(y), len(classes) or y.shape[1])
        machine.fit(self._data(X, y, features, target_names=tuple(names), classes=tuple(classes)))
        self._take(machine)
        self.validation_score_: float | None = left_out_score(machine.leave_one_out(), self._metric, y)

    def _fit_joint(
        self, X: Any, y: np.ndarray, names: Sequence[str], options: FitOptions, classes: Sequence[str]
    ) -> None:
        why = f"networks train to their last epoch, which the joint model of model={self.model!r}"
        self._warn(["validation_fraction"], why)
        network = self._network()
        data = self._data(X, y, features_for(self.model, self.features), classes=tuple(classes))
        with training() as directory:
            joint, report = train_joint(
                data,
                {"train": np.arange(len(data))},
                directory,
                options,
                model=self.model,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        for part in (joint.machine, joint.ensemble):
            part.about["target_names"] = [*names]
        self._take(joint)
        self.validation_score_ = report["left_out"]

    def _fit_networks(
        self, X: Any, y: np.ndarray, names: Sequence[str], options: FitOptions, classes: Sequence[str]
    ) -> None:
        network = self._network()
        # Names are those of files of predictions, and there are no such files here.
        data = self._data(X, y, self.features or "ogb", classes=tuple(classes))
        split_idx = train_and_valid(data, self.validation_fraction, options.seed)
        with training() as directory:
            ensemble, report = train_run(
                data,
                split_idx,
                directory,
                options,
                kind=SHORT_NAMES[self.model].__name__,
                network=network,
                ensemble_size=self.ensemble_size,
                progress=self.progress,
            )
        ensemble.about["target_names"] = [*names]
        self._take(ensemble)
        self.validation_score_ = report.get("valid")

    def _data(self, X: Any, y: np.ndarray, features: str, **description: Any) -> PackedGraphs:
        unknown = np.flatnonzero(np.isnan(y).all(axis=1))
        if len(unknown):
            raise ValueError(
                f"y: {len(unknown):,} rows have no target, the first is data row {unknown[0] + 1}"
            )
        task = self._task
        if description.get("classes"):
            task = "multiclass" if getattr(self, "levels", None) is None else "ordinal"
        return self._graphs(X, features).with_targets(y, task=task, metric=self._metric, **description)

    def _graphs(self, X: Any, features: str) -> PackedGraphs:
        """What ``X`` holds, packed."""
        return molecules_of(X, features)

    def _new_graphs(self, X: Any) -> PackedGraphs:
        """What ``X`` holds, as the fitted model reads it."""
        return self._graphs(X, self._fitted.about["features"])

    def _predict(self, X: Any) -> np.ndarray:
        """Values or probabilities, ``[n, T]``, or those of all classes of more than two, ``[n, C]``."""
        check_is_fitted(self)
        data, model = self._new_graphs(X), self._fitted
        return model.predict(data)[0] if isinstance(model, Ensemble) else model.predict(data)

    def nearest(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """How similar the most similar training molecule is, of a kernel machine.

        Args:
            X: As of ``fit``.

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

    def _options(
        self, seed: int, devices: int, class_weight: Literal["balanced"] | list[float] | None
    ) -> FitOptions:
        own = ("epochs", "batch_size", "lr", "weight_decay", "patience")
        known, taken = {field.name for field in fields(FitOptions)}, (*own, "seed", "devices")
        more = more_options(self, "fit_options", known, taken)
        if class_weight is not None:
            if "class_weight" in more:
                raise ValueError("fit_options: class_weight is set by the argument class_weight")
            more["class_weight"] = class_weight
        return FitOptions(seed=seed, devices=devices, **{name: getattr(self, name) for name in own}, **more)

    def _network(self) -> dict[str, Any]:
        kind = SHORT_NAMES[self.model.rpartition("+")[2]]
        known = set(inspect.signature(kind).parameters) - {*_OF_DATA}
        own = [name for name in ("hidden_channels", "dropout", "loss", "quantiles") if hasattr(self, name)]
        more = more_options(self, "network_options", known, own)
        given = {name: value for name in own if (value := getattr(self, name)) is not None}
        options = {**given, **more}
        kind.check_arguments(**options)
        return options
