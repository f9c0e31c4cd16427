"""Folds of a repeated cross-validation."""

from __future__ import annotations

import logging
from typing import Literal, get_args

import numpy as np

from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.utils.checks import check_count, check_one_of

from .clusters import SIMILARITY, butina_clusters
from .identity import molecule_ids
from .scaffold import scaffolds

logger = logging.getLogger("wlkernelnn")

FoldKind = Literal["random", "scaffold", "flat_scaffold", "butina"]


def split_groups(data: PackedGraphs, kind: FoldKind = "random", similarity: float = SIMILARITY) -> np.ndarray:
    """The group of every molecule that a split keeps together, int64 ``[n]``.

    Args:
        data: The molecules.
        kind: ``"random"`` (replicates of a molecule), ``"scaffold"``, ``"flat_scaffold"`` or ``"butina"``,
            see :func:`split`.
        similarity: Of ``"butina"`` alone, see :func:`butina_clusters`.

    Raises:
        ValueError: Unknown ``kind``, or graphs without SMILES where it needs them.
    """
    check_one_of("split", kind, get_args(FoldKind))
    smiles = data.smiles
    if not smiles:
        if kind == "random":
            return np.arange(len(data))
        raise ValueError(f"a {kind} split needs SMILES; these graphs have none")
    if kind == "butina":
        return butina_clusters(smiles, similarity)
    labels = molecule_ids(smiles) if kind == "random" else scaffolds(smiles, chirality=kind == "scaffold")
    return np.unique(labels, return_inverse=True)[1]


def cv_folds(
    data: PackedGraphs,
    k: int = 5,
    repeats: int = 1,
    kind: FoldKind = "random",
    seed: int = 0,
    similarity: float = SIMILARITY,
) -> np.ndarray:
    """The fold of every molecule in each repeat of a k-fold cross-validation, int64 ``[repeats, n]``.

    Groups (:func:`split_groups`) stay in one fold and are dealt out at random, so that folds have sizes as
    equal as they allow; of classes each is dealt out evenly, of several targets those of the rarest class.

    Args:
        data: The molecules, with their targets.
        k: Folds, at least 2.
        repeats: How often all molecules are dealt out anew.
        kind, similarity: What stays together, see :func:`split_groups`.
        seed: Repeat r takes ``seed + r``.

    Raises:
        ValueError: ``k`` < 2, ``repeats`` < 1, fewer groups than folds, or as :func:`split_groups`.
    """
    check_count("k", k, 2)
    check_count("repeats", repeats)
    group = split_groups(data, kind, similarity)
    counts = np.bincount(group)
    if len(counts) < k:
        raise ValueError(f"{k} folds: the {kind} split has only {len(counts)} groups of molecules")
    if counts.max() > 1.5 * len(data) / k:
        logger.warning(
            f"{k} folds of a {kind} split: the largest group holds {counts.max():,} of "
            f"{len(data):,} molecules, and groups are not split, so folds differ in size"
        )
    rank = _strata(data)
    return np.stack([_dealt(group, counts, rank, k, seed + r) for r in range(repeats)])


def _strata(data: PackedGraphs) -> np.ndarray:
    """What is dealt out evenly, int64 ``[n]``: the class, by how rare it is; nothing of numbers."""
    if data.task in (None, "regression"):
        return np.zeros(len(data), dtype=np.int64)
    y = np.nan_to_num(data.measured.numpy(), nan=-1)
    rarest = [np.unique(column[column >= 0], return_counts=True)[1].min(initial=len(y)) for column in y.T]
    _, place, counts = np.unique(y[:, int(np.argmin(rarest))], return_inverse=True, return_counts=True)
    return np.argsort(np.argsort(counts, kind="stable"))[place]


def _dealt(group: np.ndarray, counts: np.ndarray, rank: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Fold of every molecule: rare classes first, large groups before small ones."""
    rarest = np.full(len(counts), rank.max(initial=0))
    np.minimum.at(rarest, group, rank)
    # How many of its rarest class each group holds.
    own = np.bincount(group[rank == rarest[group]], minlength=len(counts))
    drawn = np.random.default_rng(seed).permutation(len(counts))
    order = drawn[np.lexsort([-counts[drawn], rarest[drawn]])]
    size, of_class, fold = np.zeros(k), np.zeros((k, int(rarest.max(initial=0)) + 1)), np.zeros_like(counts)
    for g in order.tolist():
        chosen = int(np.lexsort([size, of_class[:, rarest[g]]])[0])
        fold[g] = chosen
        size[chosen] += counts[g]
        of_class[chosen, rarest[g]] += own[g]
    return fold[group]
