"""What the leaderboards of the Open Graph Benchmark take: figures of its evaluator, or predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ogb.graphproppred import Evaluator
from ogb.lsc import PCQM4Mv2Evaluator

from wlkernelnn.utils.files import atomic_path

# The parts of PCQM4Mv2 whose predictions its leaderboards take, since nobody else has the targets, and how
# many molecules they have: what ogb.lsc.PCQM4Mv2Evaluator.save_test_submission takes.
SUBMITTED = {"test-dev": 147_037, "test-challenge": 147_432}


def official(name: str, target: np.ndarray, prediction: np.ndarray) -> float:
    """The figure of OGB's evaluator for a data set; NaN is a missing target, both are ``[G, tasks]``."""
    if name == "pcqm4mv2":
        result = PCQM4Mv2Evaluator().eval({"y_true": target[:, 0], "y_pred": prediction[:, 0]})
    else:
        result = Evaluator(name).eval({"y_true": target, "y_pred": prediction})
    (figure,) = result.values()
    return float(figure)


def write_submission(folder: Path, part: str, prediction: np.ndarray) -> None:
    """Write predictions ``[G, 1]`` of a part of PCQM4Mv2 as the file that its leaderboard takes."""
    check_size(part, len(prediction))
    with atomic_path(folder / f"y_pred_pcqm4m-v2_{part}.npz") as temporary:
        np.savez_compressed(temporary, y_pred=prediction[:, 0].astype(np.float32))


def check_size(part: str, size: int) -> None:
    """Raise a ValueError if there is not a prediction for each molecule of a part."""
    if size != SUBMITTED[part]:
        raise ValueError(
            f"pcqm4mv2, {part}: what is submitted has a prediction for each of its {SUBMITTED[part]:,} "
            f"molecules, got {size:,} molecules (their SMILES that RDKit refuses are missing)"
        )
