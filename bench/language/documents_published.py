"""What the paper and its reproduction report say of documents: the rows, their figures, and the recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wlkernelnn.datasets import DOCUMENT_SETS

CHANNELS = 300
NGRAMS = (1, 3)

MODELS = {
    "lstm": "LSTM",
    "rkm_lstm": "RKM-LSTM",
    "rkm_cifg": "RKM-CIFG",
    "linear_gated": "Linear Kernel w/ o_t",
    "linear": "Linear Kernel",
    "gated_cnn": "Gated CNN",
    "cnn": "CNN",
}
# Test accuracy in per cent, by set and length of the n-grams, of the models above.
_PAPER = """
ag_news 1        91.82 91.76 92.29 92.07 91.62 91.54 91.20
ag_news 3        92.46 92.28 92.39 91.49 91.50 91.78 91.53
dbpedia 1        98.98 98.97 98.99 98.96 98.65 98.37 98.17
dbpedia 3        98.97 99.00 99.05 98.94 98.77 98.77 98.52
yahoo_answers 1  77.74 77.70 77.71 77.41 76.93 72.92 72.51
yahoo_answers 3  77.72 77.72 77.91 77.53 76.53 76.66 75.97
yelp_full 1      66.27 65.92 65.93 65.35 61.18 60.25 59.77
yelp_full 3      66.37 66.43 65.92 65.94 62.11 64.30 62.08
"""
_REPORT = """
ag_news 1        91.64 91.75 91.76 91.42 89.50 91.15 89.56
ag_news 3        92.31 91.89 92.42 91.21 89.59 91.65 89.70
dbpedia 1        98.83 98.98 98.93 98.92 98.32 97.93 98.39
dbpedia 3        98.97 98.97 98.92 98.95 98.59 98.78 97.88
yahoo_answers 1  76.39 76.30 76.13 76.26 74.41 63.92 73.77
yahoo_answers 3  76.52 76.64 76.69 76.70 75.61 71.57 74.29
yelp_full 1      64.15 64.14 64.80 61.62 61.37 62.07 –
yelp_full 3      64.93 65.68 65.54 65.30 61.18 64.50 –
"""


def _figures(table: str) -> dict[tuple[str, int, str], str]:
    """Figures by set, n and model."""
    lines = (line.split() for line in table.strip().splitlines())
    return {
        (name, int(n), model): figure
        for name, n, *figures in lines
        for model, figure in zip(MODELS, figures, strict=True)
    }


# Table 2 of the paper, and Figure 4 of the reproduction report, which lacks one row.
PAPER, REPORT = _figures(_PAPER), _figures(_REPORT)


@dataclass(frozen=True)
class Recipe:
    """What the two publications do differently."""

    hidden_channels: dict[int, int]  # between the two fully connected layers, by length of the n-grams
    head: dict[str, Any]  # further options of the classifier
    layer: dict[str, Any]  # options of all layers
    sigma2: dict[str, dict[str, Any]]  # further ones of some models
    batch_size: dict[str, int]  # by set
    training: dict[str, Any]  # all else


RECIPES = {
    "release": Recipe(
        hidden_channels={1: 300, 3: 300},
        head={"act": "relu", "dropout": 0.5},
        layer={"layer_norm": "state", "forget_bias": 1.0},
        sigma2={name: {"sigma_i2": "learned", "sigma_f2": "learned"} for name in ("linear_gated", "linear")},
        batch_size=dict.fromkeys(DOCUMENT_SETS, 16),
        # Validated every 500 of 40,000 steps.
        training={"epochs": 80, "steps_per_epoch": 500, "gradient_clip": 1.0, "clip": "value"},
    ),
    "report": Recipe(
        hidden_channels={1: 100, 3: 200},
        head={"act": "sigmoid", "dropout": 0.0},
        layer={"layer_norm": "output", "forget_bias": 0.0},
        sigma2={name: {"sigma_i2": 0.5} for name in ("gated_cnn", "cnn")},
        batch_size={"ag_news": 64, "dbpedia": 256, "yahoo_answers": 256, "yelp_full": 512},
        training={"epochs": 30, "gradient_clip": 0.0},
    ),
}
