"""Train and score classifiers of strings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch_geometric.data import Data
from torchmetrics import MeanMetric

from wlkernelnn.datasets import EndlessShuffle, LengthGroupedShuffle, PackedStrings, StringLoader
from wlkernelnn.sequence import StringNetwork
from wlkernelnn.training.classes import class_weights
from wlkernelnn.training.loop import FitResult, train_module
from wlkernelnn.training.module import TrainedModule
from wlkernelnn.training.string_options import ClassifierOptions
from wlkernelnn.utils.checks import check_predictions
from wlkernelnn.utils.modes import evaluating

from .scores import EVALUATION_BATCH, single


def fit_classifier(
    model: StringNetwork,
    train: PackedStrings,
    valid: PackedStrings | None = None,
    options: ClassifierOptions | None = None,
    *,
    directory: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
) -> FitResult:
    """Train ``model`` in place; afterwards it holds the weights of the best accuracy on ``valid``.

    Where classes have weights in the loss, strings have them in that accuracy. Without ``valid`` the last
    weights are kept. The same arguments on the same machine give the same weights,
    also if training was resumed.

    Args:
        model: The model.
        train, valid: Strings with int64 classes ``y [S]``.
        options: How to train.
        directory, resume, progress: As of :func:`~wlkernelnn.training.fit`.

    Raises:
        ValueError: No training strings, or classes that are not int64 ``[S]`` or that the model lacks; no
            string of ``valid`` has a weight.
        ValueError, FileExistsError, DivergedError: As of :func:`~wlkernelnn.training.fit`.
    """
    options = options or ClassifierOptions()
    for name, strings in (("train", train), ("valid", valid)):
        if strings is None:
            continue
        if not len(strings):
            raise ValueError(f"{name} has no strings")
        _check_classes(name, strings)
        low, high = strings.y.aminmax()
        if low < 0 or high >= model.num_classes:
            raise ValueError(
                f"{name} has classes {int(low)} … {int(high)}, the model 0 … {model.num_classes - 1}"
            )
    resample: EndlessShuffle | LengthGroupedShuffle | None = None
    if options.group_by_length:
        resample = LengthGroupedShuffle(train.ptr.diff(), options.batch_size, options.seed)
    elif options.steps_per_epoch:
        resample = EndlessShuffle(len(train), options.steps_per_epoch * options.batch_size, options.seed)
    batches = StringLoader(
        train, options.batch_size, shuffle=resample is None, seed=options.seed, resample=resample
    )
    wanted = "balanced" if options.balance else options.class_weight
    weights = class_weights(wanted, train.y.unsqueeze(1), model.num_classes)
    if weights is not None and valid is not None and not weights[valid.y].any():
        raise ValueError("valid has no strings but of classes of weight 0")
    return train_module(
        _ClassifierModule(model, options, None if weights is None else weights[:, 0]),
        batches,
        None if valid is None else StringLoader(valid, EVALUATION_BATCH),
        origin={"train": train, "valid": valid, "network": model},
        directory=directory,
        resume=resume,
        progress=progress,
    )


@torch.no_grad()
def class_probabilities(model: StringNetwork, strings: PackedStrings) -> Tensor:
    """Probabilities of the classes, ``[S, num_classes]`` on the CPU, in the order of the strings.

    The model is used in evaluation mode on the device where it is.
    """
    device = next(model.parameters()).device
    with evaluating(model):
        found = [
            single(_logits(model, batch.to(device))).softmax(1).cpu()
            for batch in StringLoader(strings, EVALUATION_BATCH, num_replicas=1)
        ]
    result = torch.cat(found) if found else torch.empty(0, model.num_classes)
    check_predictions(result.numpy(), "strings")
    return result


def accuracy(model: StringNetwork, strings: PackedStrings) -> float:
    """Fraction of strings whose most probable class is theirs, by :func:`class_probabilities`.

    Raises:
        ValueError: There are no strings, or their classes ``y`` are not int64 ``[S]``.
    """
    if not len(strings):
        raise ValueError("the accuracy of no strings is not defined")
    _check_classes("strings", strings)
    right = class_probabilities(model, strings).argmax(1) == strings.y
    return int(right.sum()) / len(strings)


def _check_classes(name: str, strings: PackedStrings) -> None:
    if strings.y.dtype != torch.int64:
        raise ValueError(f"{name} has classes of {strings.y.dtype}, expected torch.int64")
    if strings.y.dim() != 1:
        raise ValueError(f"{name} has classes of shape {list(strings.y.shape)}, expected [{len(strings)}]")


def _logits(model: StringNetwork, batch: Data) -> Tensor:
    """Logits; vectors are read in the type of the model, which precisions such as "64-true" change."""
    x = batch.x.to(next(model.parameters()).dtype) if batch.x.is_floating_point() else batch.x
    return model(x, batch.ptr)


class _ClassifierModule(TrainedModule):
    """Trains a classifier."""

    shares_batches = True
    class_weight: Tensor | None

    def __init__(self, model: StringNetwork, options: ClassifierOptions, class_weight: Tensor | None) -> None:
        super().__init__(model, options, "accuracy", maximize=True)
        self.register_buffer("class_weight", class_weight, persistent=False)
        self.accuracy = MeanMetric()

    def training_step(self, batch: Data, batch_idx: int) -> Tensor:
        logits = _logits(self.model, batch)
        weight = None if self.class_weight is None else self.class_weight.to(logits.dtype)
        total = cross_entropy(logits, batch.y, weight, reduction="sum")
        size = len(batch.y)
        return self.mean_loss(
            total, total.new_tensor(size) if weight is None else weight[batch.y].sum(), size
        )

    def configure_gradient_clipping(
        self,
        optimizer: Any,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        self.clip_gradients(optimizer, gradient_clip_val, self.options.clip)

    def validation_step(self, batch: Data, batch_idx: int) -> None:
        right = _logits(self.model, batch).argmax(1) == batch.y
        self.accuracy(right.float(), 1.0 if self.class_weight is None else self.class_weight[batch.y])
        self.log("valid_accuracy", self.accuracy, on_epoch=True, prog_bar=True, batch_size=len(batch.y))

    def configure_optimizers(self) -> Any:
        # The gradient of l2 · w² is 2 · l2 · w.
        optimizer = self.adam(list(self.parameters()), weight_decay=2 * self.options.l2)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.options.lr_factor)]
