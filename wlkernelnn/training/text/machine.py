"""Fit the machine of a run folder of texts, and say how well it does."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from wlkernelnn.datasets import Texts
from wlkernelnn.machines import TextMachine
from wlkernelnn.machines.texts import save_text_machine
from wlkernelnn.training.folder import check_free, write_splits
from wlkernelnn.utils.files import alone_in

from .labelled import LabelledTexts


def train_text_machine(
    texts: Texts,
    split_idx: Mapping[str, np.ndarray],
    directory: str | os.PathLike[str],
    *,
    level: Literal["words", "characters"] = "words",
    ngram: int = 2,
    max_length: int | None = None,
    min_count: int = 2,
    class_weight: Literal["balanced"] | Sequence[float] | None = None,
    target_name: str = "label",
) -> tuple[TextMachine, dict[str, Any]]:
    """Fit a :class:`~wlkernelnn.machines.TextMachine`, keep it in a folder, and score it.

    The folder then holds ``config.json``, ``model.safetensors``, ``runs.json`` and ``README`` (what of the
    training texts is there), and ``splits.json``, ``valid_predictions.csv``, ``test_predictions.csv`` and
    ``metrics.json`` as of :func:`train_texts`.

    Args:
        texts, split_idx, directory, level, max_length, target_name: As of :func:`train_texts`. The validation
            part is scored only.
        ngram, min_count, class_weight: As of :class:`~wlkernelnn.machines.TextMachine` and its ``fit``.

    Returns:
        The machine and the content of ``metrics.json``, with the accuracy on training texts left out.

    Raises:
        ValueError: There are less than two classes, the split has no training part, or an option is out of
            its range.
        FileExistsError: The folder holds a run already, or another process works there.
        NotADirectoryError: ``directory`` is a file.
    """
    directory, labelled = Path(directory), LabelledTexts.of(texts, split_idx)
    tokens = {name: [texts.tokens[i] for i in rows] for name, rows in labelled.index.items()}
    machine = TextMachine(level, ngram, min_count)
    with alone_in(directory):
        check_free(directory)
        write_splits(directory, labelled.rows())
        begin = time.perf_counter()
        machine.fit(tokens["train"], labelled.y[labelled.index["train"]], len(labelled.classes), class_weight)
        seconds = time.perf_counter() - begin
        machine.about = labelled.about(level, max_length, target_name)
        report = labelled.scored(
            directory,
            machine,
            tokens,
            target_name,
            seconds,
            vocabulary=machine.spectrum_.num_tokens,
            left_out=machine.accuracy_,
            errors=machine.errors_,
        )
        save_text_machine(directory, machine)  # last: a run that was killed is begun anew
        return machine, report
