from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wlkernelnn.training import AWDOptions, ClassifierOptions, FitOptions, LanguageOptions, TreeOptions
from wlkernelnn.training.options import LoopOptions

OUT_OF_RANGE: list[tuple[str, Any, str]] = [
    ("epochs", 0, "at least 1"),
    ("batch_size", 0, "at least 1"),
    ("lr", 0.0, "above 0"),
    ("weight_decay", -1e-4, "at least 0"),
    ("schedule", "linear", "one of cosine, exponential, constant"),
    ("warmup_epochs", -1, "at least 0"),
    ("lr_min", -1.0, "at least 0"),
    ("lr_min", 0.1, "from 0 to lr=0.001"),
    ("lr_decay", 1.1, "above 0 and at most 1"),
    ("lr_decay", 0.0, "above 0 and at most 1"),
    ("lr_decay_samples", 0, "at least 1"),
    ("gradient_clip", -1.0, "at least 0"),
    ("ema_decay", 1.0, "at least 0 and below 1"),
    ("patience", -1, "at least 0"),
    ("bucket_width", -0.05, "at least 0"),
    ("seed", -1, "from 0 to 2"),
    ("precision", "99", "one of 64-true, 32-true, bf16-true, 16-mixed, bf16-mixed"),
    ("precision", "16-true", "one of 64-true"),  # diverges
    ("matmul_precision", "low", "one of highest, high, medium"),
    ("epochs", 2.5, "a whole number"),
    ("seed", "0", "a whole number"),
    ("lr", float("inf"), "a finite number"),
    ("gradient_clip", float("nan"), "a finite number"),
    ("weight_decay", None, "a finite number"),
]


def test_out_of_range() -> None:
    for name, value, expected in OUT_OF_RANGE:
        with pytest.raises(ValueError, match=rf"^{name} must be {expected}.*, got {value!r}$"):
            FitOptions(**{name: value})


@pytest.mark.parametrize("kind", [ClassifierOptions, LanguageOptions, AWDOptions, TreeOptions])
@pytest.mark.parametrize("name", ["batch_size", "bptt", "lr"])
def test_of_other_trainings(kind: type[LoopOptions], name: str) -> None:
    if hasattr(kind, name):
        with pytest.raises(ValueError, match=f"^{name} must be .*, got 0$"):
            kind(**{name: 0})


def test_bounds_that_are_allowed() -> None:
    FitOptions(
        epochs=1,
        weight_decay=0,
        warmup_epochs=0,
        lr=1e-5,
        lr_min=1e-5,
        lr_decay=1.0,
        gradient_clip=0.0,
        ema_decay=0.0,
    )
    FitOptions(precision=32)  # type: ignore[arg-type]  # as Lightning has it


def test_numbers_of_numpy_become_plain_ones() -> None:
    options = FitOptions(lr=np.float64(0.01), epochs=np.int64(3))
    assert (type(options.lr), type(options.epochs)) == (float, int)
