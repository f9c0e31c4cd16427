"""What a kernel machine of molecules is made of: kernels, features, rows, memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from wlkernelnn.datasets import get_features
from wlkernelnn.kernels import DescriptorKernel, MoleculeKernel, PathKernel, ShortestPathKernel
from wlkernelnn.kernels.graphs.codings import CODINGS
from wlkernelnn.kernels.graphs.codings import FEATURES as OF_CODINGS

#: The features of molecules that the machine compares.
FEATURES = f"{OF_CODINGS}+descriptors"
CHOICES = {"kernels": "kernels", "descriptors": "descriptors", "both": "kernels and descriptors"}


def parts_of(choice: str) -> list[Kernel]:
    """The kernels of a choice, which was made by leave-one-out on development sets."""
    kernels: list[Kernel] = [
        *MoleculeKernel().parts,
        ShortestPathKernel(normalize="minmax", coding="fcfp"),
        PathKernel(6, normalize="minmax", coding="ogb"),
    ]
    return {"kernels": kernels, "descriptors": [DescriptorKernel()], "both": [*kernels, DescriptorKernel()]}[
        choice
    ]


def summed(parts: Sequence[Kernel]) -> Kernel:
    """The kernel that is the sum of some."""
    return reduce(add, parts)


def check_features(features: str) -> None:
    """Refuse features of molecules that a kernel of the machine lacks a column in.

    Raises:
        ValueError: One does.
    """
    found = get_features(features)
    lacking = sorted({name for names in CODINGS.values() for name in names} - {*found.node_columns})
    if not found.descriptors:
        lacking.append("descriptors")
    if lacking:
        raise ValueError(
            f"features {features!r} lack {', '.join(lacking)}: a kernel machine needs {FEATURES!r}, or these "
            "with additions"
        )


def places(choice: str) -> range:
    """Which parts of ``both`` a choice has."""
    first, both = len(parts_of("kernels")), len(parts_of("both"))
    return {"kernels": range(first), "descriptors": range(first, both), "both": range(both)}[choice]


def drawn_rows(y: np.ndarray, most: int, seed: int) -> np.ndarray:
    """Rows of targets ``[n, T]``: all, or at most so many; each target has its share."""
    if len(y) <= most:
        return np.arange(len(y))
    order = np.random.RandomState(seed).permutation(len(y))
    share = max(1, most // y.shape[1])
    return np.unique(np.concatenate([order[~np.isnan(column[order])][:share] for column in y.T]))


def memory() -> int | None:
    """Bytes of this machine's memory; ``None`` where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
