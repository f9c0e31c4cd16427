"""Texts with classes, in parts, and what predictions for them are worth."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import pandas as pd

from wlkernelnn.datasets import Texts
from wlkernelnn.datasets.splits.parts import PARTS
from wlkernelnn.training.classes import class_scores, of_each_class, probability_columns
from wlkernelnn.training.folder import REPORT, write_report
from wlkernelnn.utils.checks import repeated
from wlkernelnn.utils.files import atomic_path

logger = logging.getLogger("wlkernelnn")


class Classifier(Protocol):
    """What has probabilities of classes for what it reads."""

    @property
    def num_parameters(self) -> int: ...

    def probabilities(self, strings: Any, /) -> np.ndarray: ...


@dataclass
class LabelledTexts:
    """Texts with classes, in parts.

    Attributes:
        texts: The whole set.
        classes: Their names, sorted.
        y: The class of each text, int64 ``[n]``.
        index: Positions of each part that has a text; ``"train"`` is there.
    """

    texts: Texts
    classes: list[str]
    y: np.ndarray
    index: dict[str, np.ndarray]

    @classmethod
    def of(cls, texts: Texts, split_idx: Mapping[str, np.ndarray]) -> Self:
        """Number the classes; one that the training part lacks is named in a warning.

        Raises:
            ValueError: There are less than two classes, or the split has no training part.
        """
        classes = sorted(set(texts.labels))
        if len(classes) < 2:
            raise ValueError(
                f"{texts.where or 'texts'}: expected at least two classes, got {len(classes)} "
                f"({', '.join(classes)})"
            )
        index = {name: split_idx[name] for name in PARTS if len(split_idx.get(name, ()))}
        if "train" not in index:
            raise ValueError("the split has no training part")
        trained = {texts.labels[i] for i in index["train"]}
        if unseen := [name for name in classes if name not in trained]:
            logger.warning(f"{', '.join(unseen)}: no text of this class is in the training part")
        seen = {texts.texts[i] for i in index["train"]}
        for name, rows in index.items():
            again = sum(texts.texts[i] in seen for i in rows)
            if again and name != "train":
                logger.warning(
                    f"{again:,} of {len(rows):,} {name} texts are in the training part too: "
                    "their scores say little of new texts"
                )
        number = {name: i for i, name in enumerate(classes)}
        return cls(texts, classes, np.array([number[label] for label in texts.labels], dtype=np.int64), index)

    def about(self, level: str, max_length: int | None, target_name: str) -> dict[str, Any]:
        """What a model says of itself.

        Raises:
            ValueError: Files of predictions could not tell the target's columns from others.
        """
        own = [target_name, f"{target_name}_pred", *probability_columns(target_name, self.classes)]
        columns = ["row", "text", *own]
        if twice := repeated(columns):
            raise ValueError(
                f"target {target_name!r}: files of predictions have columns row, text, <target>, "
                f"<target>_pred and <target>_p_<class>; {', '.join(twice)} would be there twice"
            )
        return {
            "task": "classification",
            "level": level,
            "max_length": max_length,
            "classes": self.classes,
            "target_names": [target_name],
            "metric": "accuracy",
            "name": self.texts.name,
        }

    def rows(self) -> dict[str, list[int]]:
        """Input rows of each part, counted from 0."""
        return {name: self.texts.row[rows].tolist() for name, rows in self.index.items()}

    def scored(
        self,
        directory: Path,
        model: Classifier,
        strings: Mapping[str, Any],
        target_name: str,
        seconds: float,
        **more: Any,
    ) -> dict[str, Any]:
        """Predict all parts but the training part, and write predictions and ``metrics.json`` into a folder.

        Args:
            directory: The run folder.
            model: What was trained.
            strings: What it reads of each part.
            target_name: What columns of predictions call the class.
            seconds: How long the training took.
            more: Further entries of the report.

        Returns:
            The content of ``metrics.json``.
        """
        report: dict[str, Any] = {
            "metric": "accuracy",
            "parameters": model.num_parameters,
            "seconds": round(seconds, 1),
            "counts": {name: len(rows) for name, rows in self.index.items()},
            **more,
            "scores": {},
        }
        for name in (name for name in self.index if name != "train"):
            rows, probability = self.index[name], model.probabilities(strings[name])
            scores = class_scores(self.y[rows], probability)
            report[name] = scores["accuracy"]
            each = of_each_class(self.y[rows], probability, self.classes)
            report["scores"][name] = scores | {"classes": each}
            columns: dict[str, Any] = {
                "row": self.texts.row[rows] + 1,
                "text": [self.texts.texts[i] for i in rows],
                target_name: [self.texts.labels[i] for i in rows],
                f"{target_name}_pred": [self.classes[i] for i in probability.argmax(1)],
                **dict(zip(probability_columns(target_name, self.classes), probability.T, strict=True)),
            }
            with atomic_path(directory / f"{name}_predictions.csv") as temporary:
                pd.DataFrame(columns).to_csv(temporary, index=False)
        write_report(directory / REPORT, report)
        return report
