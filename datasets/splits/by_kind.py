"""Splits by their names."""

from __future__ import annotations

import logging
from typing import Literal, get_args

from wlkernelnn.datasets.graphs.packed import PackedGraphs
from wlkernelnn.utils.checks import check_one_of

from .clusters import SIMILARITY, butina_split
from .identity import molecule_ids, replicates
from .parts import Sizes, SplitIndex, random_split
from .scaffold import scaffold_split

logger = logging.getLogger("wlkernelnn")

SplitKind = Literal["random", "scaffold", "flat_scaffold", "butina", "time"]


def split(
    data: PackedGraphs,
    kind: SplitKind = "random",
    sizes: Sizes = (0.8, 0.1, 0.1),
    seed: int = 0,
    similarity: float = SIMILARITY,
) -> SplitIndex:
    """Split a packed store (or a view on one): positions in ``data``.

    Args:
        data: The molecules.
        kind: ``"random"`` (:func:`random_split`; rows of the same molecule, by its canonical SMILES, stay in
            one part), ``"scaffold"`` (:func:`scaffold_split`, where ``seed`` has no effect),
            ``"flat_scaffold"``, that without chirality, or ``"butina"`` (:func:`butina_split`, without a seed
            too). ``"time"`` needs times: :func:`time_split`, or ``load_molecules(…, split="time",
            time_column=…)``.
        sizes, seed: As there.
        similarity: Of ``"butina"`` alone, see :func:`butina_clusters`.

    Raises:
        ValueError: Unknown ``kind``, bad ``sizes``, graphs without SMILES where a split needs them, or what
            :func:`butina_split` refuses.
    """
    check_one_of("split", kind, get_args(SplitKind))
    smiles = data.smiles
    if kind == "random":
        if not smiles:
            return random_split(len(data), sizes, seed)
        ids = molecule_ids(smiles)
        molecules, rows = replicates(ids)
        if molecules:
            logger.info(
                f"random split: {molecules:,} molecules stand in more than one row ({rows:,} rows); the rows "
                "of each stay in one part"
            )
        return random_split(len(data), sizes, seed, groups=ids)
    if kind == "time":
        raise ValueError(
            "a time split needs times: time_split(times), or load_molecules(…, split='time', time_column=…)"
        )
    if len(smiles) != len(data):
        raise ValueError(f"a {kind} split needs SMILES; these graphs have none")
    if kind == "butina":
        return butina_split(smiles, sizes, similarity)
    return scaffold_split(smiles, sizes, chirality=kind == "scaffold")
