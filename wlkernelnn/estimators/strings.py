"""What classifiers of texts and of signals share, as scikit-learn's estimators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from wlkernelnn.datasets.files.table import items_of
from wlkernelnn.kernels.base import is_list
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.texts import save_text_machine
from wlkernelnn.training import ClassifierOptions, StringEnsemble, StringNetworkOptions, load_string_run
from wlkernelnn.training.folder import with_seeds
from wlkernelnn.training.text.networks import encoder

from .data import num_rows, numbered, weights_by_class
from .saved import SavedEstimator, more_options, training


class Options(NamedTuple):
    """Of networks, and of their training."""

    network: StringNetworkOptions
    training: ClassifierOptions


@dataclass(eq=False, repr=False)
class _Arguments:
    """The arguments of all classifiers of strings; :class:`TextClassifier` says what they are."""

    _: KW_ONLY
    ensemble_size: int = 1
    hidden_channels: int = StringNetworkOptions.hidden_channels
    num_layers: int = StringNetworkOptions.num_layers
    bidirectional: bool = StringNetworkOptions.bidirectional
    ngram: int = StringNetworkOptions.ngram
    dropout: float = StringNetworkOptions.dropout
    epochs: int = 20
    batch_size: int = ClassifierOptions.batch_size
    lr: float = ClassifierOptions.lr
    patience: int = 0
    validation_fraction: float = 0.1
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    network_options: Mapping[str, Any] | None = None
    fit_options: Mapping[str, Any] | None = None
    random_state: int | np.random.RandomState | None = None
    progress: bool = False


class StringEstimator(_Arguments, ClassifierMixin, SavedEstimator):
    """What classifiers of strings share."""

    _task = "classification"
    _of_vectors: ClassVar[bool]
    _holders: ClassVar[dict[type, str]] = {StringEnsemble: "ensemble_", TextMachine: "machine_"}
    ensemble_: StringEnsemble
    machine_: TextMachine
    classes_: np.ndarray

    @abstractmethod
    def _train(
        self,
        X: Any,
        y: np.ndarray,
        names: list[str],
        weights: Any,
        options: Options | None,
        directory: Path,
    ) -> tuple[StringEnsemble | TextMachine, float | None]:
        """Train on classes ``[n]``, numbers of ``names``; the model and its validation score.

        ``weights`` are of the sorted ``names``. A machine has no ``options``.
        """

    @abstractmethod
    def _probabilities(self, X: Any) -> np.ndarray:
        """Probabilities of the classes in the order of ``about``, by a fitted model."""

    def fit(self, X: Any, y: Any, devices: int = 1) -> Self:
        """Train the model.

        Args:
            X: Strings ``[n]``, see the class.
            y: The class of each ``[n]``, of any names; two classes or more.
            devices: Processes that train together, see :class:`~wlkernelnn.training.LoopOptions`.

        Raises:
            TypeError: X is not a list of such strings.
            ValueError: A string cannot be used or has no class, y has another length or less than two
                classes, or an argument is out of its range.
        """
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options = self._options(seed, devices)
        if np.ndim(y) == 2:
            y = column_or_1d(y, warn=True)
        labels = items_of(y) if is_list(y) else None
        rows = num_rows(X)
        if labels is None or rows not in (None, len(labels)):
            size = "n" if rows is None else rows
            raise ValueError(f"y must be [{size}], got {'no list' if labels is None else f'[{len(labels)}]'}")
        classes, number = numbered(labels)
        if len(classes) < 2:
            raise ValueError(f"y: expected two classes or more, got {len(classes)} ({classes.tolist()})")
        names = [str(name) for name in classes]
        weights = weights_by_class(self.class_weight, classes)
        if isinstance(weights, list):
            weights = [weights[place] for place in np.argsort(names)]  # as models have them
        if weights is not None and options is not None:
            if options.training.balance or options.training.class_weight:
                raise ValueError("fit_options: class_weight is set by the argument class_weight")
            options = options._replace(training=replace(options.training, class_weight=weights))
        with training() as directory:
            model, score = self._train(X, number, names, weights, options, directory)
        self._take(model)
        self.validation_score_ = score
        self.classes_ = classes
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of ``classes_``, floats ``[n, C]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: As of ``fit``.
        """
        check_is_fitted(self)
        return np.asarray(self._probabilities(X)[:, self._order])

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each string, ``[n]``; errors are those of :meth:`predict_proba`."""
        probability = self.predict_proba(X)
        return np.asarray(self.classes_[probability.argmax(axis=1)])

    @property
    def _model(self) -> str:
        """The name of the model."""
        return self.model

    @property
    def _order(self) -> list[int]:
        """Where the model has each class."""
        return [self._fitted.about["classes"].index(str(name)) for name in self.classes_]

    def _options(self, seed: int, devices: int) -> Options | None:
        """The options of networks."""
        of_network = ("hidden_channels", "num_layers", "bidirectional", "ngram", "dropout")
        known = {field.name for field in fields(StringNetworkOptions)}
        more = more_options(self, "network_options", known, (*of_network, "model"))
        for name in ("decay", "feedback"):
            if name in more and self._model != "kernel":
                raise ValueError(
                    f"network_options: {name} is of model='kernel', and the model is {self._model!r}"
                )
        values: dict[str, Any] = {name: getattr(self, name) for name in of_network}
        network = StringNetworkOptions(model=self._model, **values, **more)  # type: ignore[arg-type]
        with torch.random.fork_rng(devices=[]):
            encoder(network, 1)  # refuses what cannot be
        own = ("epochs", "batch_size", "lr", "patience")
        known = {field.name for field in fields(ClassifierOptions)}
        more = more_options(self, "fit_options", known, (*own, "seed", "devices"))
        values = {name: getattr(self, name) for name in own}
        options = ClassifierOptions(seed=seed, devices=devices, **values, **more)
        with_seeds(options, self.ensemble_size)
        return Options(network, options)

    def _save_model(self, directory: Path) -> None:
        if isinstance(self._fitted, TextMachine):
            save_text_machine(directory, self._fitted)
        else:
            self._fitted.save(directory)

    @classmethod
    def _load_model(cls, directory: Path) -> StringEnsemble | TextMachine:
        fitted = load_string_run(directory)
        if (vectors := fitted.about["level"] == "vectors") != cls._of_vectors:
            kinds = ("texts", "signals")
            raise ValueError(
                f"{directory}: expected a model of {kinds[not vectors]}, got one of {kinds[vectors]}"
            )
        return fitted

    @staticmethod
    def _num_networks(fitted: StringEnsemble | TextMachine) -> int:
        return len(fitted.networks) if isinstance(fitted, StringEnsemble) else 0

    def _outputs(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist()}

    def _set_outputs(self, state: dict[str, Any]) -> None:
        classes, expected = state["classes"], self._fitted.about["classes"]
        known, _ = numbered(classes)
        if known.tolist() != classes or sorted(map(str, known)) != expected:
            raise ValueError(f"classes: expected {expected}, sorted, got {classes}")
        self.classes_ = known
