"""Data as users of scikit-learn have them, for the networks: SMILES, targets, classes, a validation part."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets

from wlkernelnn.datasets import PackedGraphs, featurize
from wlkernelnn.datasets.molecules.from_table import target_names
from wlkernelnn.kernels.base import is_list


def molecules_of(X: Any, features: str) -> PackedGraphs:
    """The molecules of all SMILES, in their order.

    Raises:
        TypeError: X is no list of SMILES.
        ValueError: One gives no molecule.
    """
    if isinstance(X, (np.ndarray, pd.DataFrame)) and X.ndim == 2 and X.shape[1] == 1:
        X = np.asarray(X)[:, 0]  # what scikit-learn's ensembles and column selectors give
    if not is_list(X) or np.ndim(X) != 1:
        shape = f" of shape {list(X.shape)}" if hasattr(X, "shape") else ""
        what = "a list, array, Series or column of SMILES"
        raise TypeError(f"X: expected {what}, got {type(X).__name__}{shape}")
    data, rejects = featurize(list(X), features=features)
    if rejects:
        shown = [f"data row {row + 1}: {smiles!r}: {reason}" for row, smiles, reason in rejects[:3]]
        if len(rejects) > len(shown):
            shown.append(f"and {len(rejects) - len(shown):,} more (featurize(X) lists all)")
        what = f"{len(rejects):,} of {len(X):,} rows give no molecule"
        raise ValueError(f"X: {what}\n  " + "\n  ".join(shown))
    return data


def train_and_valid(data: PackedGraphs, fraction: float, seed: int) -> dict[str, np.ndarray]:
    """Positions of the training and the validation part, which has its share of both classes of a target.

    Raises:
        ValueError: No such fraction, or one that leaves too few in a part.
    """
    every = np.arange(len(data))
    if not isinstance(fraction, Real) or not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction must be in [0, 1), got {fraction!r}")
    if not fraction:
        return {"train": every}
    classes = data.y[:, 0].numpy() if data.task == "classification" and data.num_tasks == 1 else None
    try:
        train, valid = train_test_split(every, test_size=fraction, random_state=seed, stratify=classes)
    except ValueError as error:
        of_both = "" if classes is None else f" ({int(classes.sum()):,} of the second class)"
        raise ValueError(
            f"validation_fraction={fraction:g} of {len(data):,} molecules{of_both} leaves too few in a "
            "part; 0 trains on all of them"
        ) from error
    return {"train": np.sort(train), "valid": np.sort(valid)}


def two_classes(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The two classes, sorted, and the number of each label's."""
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("y: some classes are strings and some are not")
    array = np.asarray(labels)
    check_classification_targets(array)
    classes, number = np.unique(array, return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"y: expected two classes, got {len(classes)} ({classes.tolist()[:5]})")
    return classes, number


def target_frame(y: Any, X: Any) -> pd.DataFrame:
    """The targets, a column each, called as pandas calls them or y, y1, …."""
    # numpy would make strings of all items of a list that holds some.
    values = np.asarray(y) if hasattr(y, "__array__") else np.asarray(y, dtype=object)
    if values.ndim not in (1, 2) or (is_list(X) and len(values) != len(X)):
        size = len(X) if is_list(X) else "n"
        raise ValueError(f"y must be [{size}] or [{size}, T], got shape {list(values.shape)}")
    names = target_names(y, values.shape[1] if values.ndim == 2 else 1)
    return pd.DataFrame(values.reshape(len(values), len(names)), columns=names).infer_objects()
