"""Texts of three classes, and small runs of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wlkernelnn.cli.main import main

WORDS = {
    "sport": ["ball", "goal", "team", "match"],
    "weather": ["rain", "wind", "sun", "snow"],
    "food": ["bread", "soup", "salt", "cheese"],
}
SMALL = [
    "--model=kernel",
    "--hidden-channels=8",
    "--embedding-channels=8",
    "--epochs=4",
    "--lr=0.05",
    "--min-count=1",
]


def texts(number: int = 60, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts and their classes, which own words tell."""
    rng = np.random.default_rng(seed)
    labels = [[*WORDS][i % len(WORDS)] for i in range(number)]
    written = [" ".join([*rng.choice(WORDS[label], 3), "and", "the", "day"]) for label in labels]
    return written, labels


def write_texts(path: Path, number: int = 60, **columns: Any) -> Path:
    """A table with the columns text and label."""
    written, labels = texts(number)
    frame = pd.DataFrame({"text": written, "label": labels, **columns})
    frame.to_csv(path, index=False)
    return path


def train(path: Path, folder: Path, *more: Any, label: str = "label") -> int:
    """A small run of texts; the exit status."""
    words = ["--data-path", path, "--target-columns", label, "--output-dir", folder, *SMALL, *more]
    return main(["text", "train", *map(str, words)])


def write_book(path: Path, number: int = 120) -> Path:
    """A text of a few words, with line ends."""
    path.write_text("\n".join(texts(number)[0]) + "\n")
    return path


def train_book(path: Path, folder: Path, *more: Any) -> int:
    """A small language model; the exit status."""
    small = ["--hidden-channels=8", "--epochs=3", "--min-count=1", "--batch-size=4", "--bptt=10"]
    return main(
        ["text", "train", "--data-path", str(path), "--output-dir", str(folder), *small, *map(str, more)]
    )
