"""Data as users of scikit-learn have them: SMILES, texts, targets, classes, a validation part."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.utils.multiclass import check_classification_targets

from wlkernelnn.datasets import PackedGraphs, Reject, featurize, split_groups
from wlkernelnn.datasets.files.rejects import is_missing, listed
from wlkernelnn.datasets.files.table import frame_of
from wlkernelnn.datasets.molecules.from_table import target_names
from wlkernelnn.kernels.base import is_list, structures_in
from wlkernelnn.utils.checks import unmasked


def molecules_of(X: Any, features: str) -> PackedGraphs:
    """The molecules of all SMILES, in their order.

    Raises:
        TypeError: X is no list of SMILES.
        ValueError: One gives no molecule.
    """
    smiles = strings_in(X, "SMILES")
    data, rejects = featurize(smiles, features=features)
    refuse(rejects, len(smiles), "molecule")
    return data


def refuse(rejects: list[Reject], size: int, what: str) -> None:
    """Raise an error if rows give no ``what``."""
    if rejects:
        head = f"X: {len(rejects):,} of {size:,} rows give no {what}"
        raise ValueError(listed(head, rejects, lambda row: f"data row {row + 1}"))


def train_and_valid(data: PackedGraphs, fraction: float, seed: int) -> dict[str, np.ndarray]:
    """Positions of the training and the validation part, which has its share of all classes of a target.

    Raises:
        ValueError: No such fraction, or one that leaves too few in a part.
    """
    single = data.task != "regression" and data.num_tasks == 1
    classes, group = data.y[:, 0].numpy() if single else None, split_groups(data)
    first, place = np.unique(group, return_index=True, return_inverse=True)[1:]
    if len(first) == len(data):
        return two_parts(len(data), fraction, seed, classes, "molecules")
    # Replicates of a molecule stay together.
    of_first = None if classes is None else classes[first]
    parts = two_parts(len(first), fraction, seed, of_first, "different molecules")
    return {name: np.flatnonzero(np.isin(place, chosen)) for name, chosen in parts.items()}


def two_parts(
    size: int, fraction: float, seed: int, classes: np.ndarray | None, what: str
) -> dict[str, np.ndarray]:
    """Positions of the training and the validation part, which has its share of the ``classes`` ``[size]``.

    Raises:
        ValueError: No such fraction, or one that leaves too few in a part.
    """
    every = np.arange(size)
    if not isinstance(fraction, Real) or not 0 <= fraction < 1:
        raise ValueError(f"validation_fraction must be in [0, 1), got {fraction!r}")
    if not fraction:
        return {"train": every}
    try:
        train, valid = train_test_split(every, test_size=fraction, random_state=seed, stratify=classes)
    except ValueError as error:
        counts = [] if classes is None else np.unique(classes, return_counts=True)[1].tolist()
        of_each = f" ({' / '.join(f'{count:,}' for count in counts)} of each class)" if counts else ""
        raise ValueError(
            f"validation_fraction={fraction:g} of {size:,} {what}{of_each} leaves too few in a part; 0 "
            "trains on all of them"
        ) from error
    return {"train": np.sort(train), "valid": np.sort(valid)}


def numbered(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The classes, sorted, and the number of each label's."""
    for row, label in enumerate(labels):
        if is_missing(label):
            raise ValueError(f"y: data row {row + 1} has no label")
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("y: some classes are strings and some are not")
    array = np.asarray(labels)
    check_classification_targets(array)
    classes, number = np.unique(array, return_inverse=True)
    return classes, number


def in_order(labels: list[Any], levels: Any) -> tuple[np.ndarray, np.ndarray]:
    """The levels, and the number of each label's."""
    known = [*levels]
    if len(known) < 2 or len({*known}) < len(known):
        raise ValueError(f"levels must be at least two different classes, got {known}")
    for row, label in enumerate(labels):
        if label not in known:
            raise ValueError(f"y: {label!r} of data row {row + 1} is not one of the levels {known}")
    return np.array(known), np.array([known.index(label) for label in labels])


def weights_by_class(class_weight: Any, classes: np.ndarray) -> Any:
    """An estimator's ``class_weight`` as options have it: of a dict a weight of each class, in their order.

    Raises:
        ValueError: It is another word, no dict, or names a class that is not there.
    """
    if class_weight is None or (isinstance(class_weight, str) and class_weight == "balanced"):
        return class_weight
    known = classes.tolist()
    if not isinstance(class_weight, Mapping):
        raise ValueError(f'class_weight must be None, "balanced" or a dict of {known}, got {class_weight!r}')
    for name in class_weight:
        if name not in known:
            raise ValueError(f"class_weight: {name!r} is not one of the classes {known}")
    return [class_weight.get(name, 1.0) for name in known]


def strings_in(X: Any, what: str) -> list[Any]:
    """The items of a list, array, Series or column.

    Raises:
        TypeError: X is not a list.
    """
    X = structures_in(X)
    if not is_list(X) or np.ndim(X) != 1:
        shape = f" of shape {list(X.shape)}" if hasattr(X, "shape") else ""
        raise TypeError(
            f"X: expected a list, array, Series or column of {what}, got {type(X).__name__}{shape}"
        )
    return list(X)


def num_rows(X: Any) -> int | None:
    """How many rows a list or a table has; ``None`` of anything else."""
    rows = X if is_list(X) else frame_of(X)
    return None if rows is None else len(rows)


def target_frame(y: Any, X: Any) -> pd.DataFrame:
    """The targets, a column each, called as pandas calls them or y, y1, …."""
    frame = frame_of(y)
    y = unmasked(y) if frame is None else frame
    # numpy would make strings of all items of a list that holds some.
    values = np.asarray(y) if hasattr(y, "__array__") else np.asarray(y, dtype=object)
    rows = num_rows(X)
    if values.ndim not in (1, 2) or rows not in (None, len(values)):
        size = "n" if rows is None else rows
        raise ValueError(f"y must be [{size}] or [{size}, T], got shape {list(values.shape)}")
    names = target_names(y, values.shape[1] if values.ndim == 2 else 1)
    return pd.DataFrame(values.reshape(len(values), len(names)), columns=names).infer_objects()
