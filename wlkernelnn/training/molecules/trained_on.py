"""Which molecules a run was trained on, so that no score of them passes for one of new molecules."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import rdkit

from wlkernelnn.datasets import molecule_ids
from wlkernelnn.utils.files import json_text, read_json, understood, write_text

from .columns import Model, kernel_machine

#: In a run folder: numbers of the training molecules, from which no molecule can be read.
FILE = "training_molecules.json"
FORMAT = "wlkernelnn.training_molecules/1"

logger = logging.getLogger("wlkernelnn")


def write_training_ids(directory: Path, smiles: Sequence[str]) -> None:
    """Keep the numbers of training molecules, sorted, each once; graphs without SMILES have none."""
    if smiles:
        ids = [f"{number:016x}" for number in np.unique(molecule_ids(smiles)).tolist()]
        content = {"format": FORMAT, "rdkit": rdkit.__version__, "molecules": ids}
        write_text(directory / FILE, json_text(content) + "\n")


def in_training(path: str | os.PathLike[str], model: Model, smiles: Sequence[str]) -> np.ndarray | None:
    """Which molecules a run was trained on, bool ``[n]``; ``None`` where that is not known.

    Args:
        path: The run folder, or that of one of its networks.
        model: What lies there; a kernel machine has its training molecules.
        smiles: The molecules.

    Raises:
        ValueError: The file that says it is damaged.
    """
    folder = Path(path)
    found = next((place / FILE for place in (folder, folder.parent) if (place / FILE).is_file()), None)
    if found is not None:
        content = read_json(found)
        with understood(found, "a run writes it"):
            if content["format"] != FORMAT:
                raise ValueError(f"expected format {FORMAT}, got {content['format']!r}")
            version = content["rdkit"]
            known = np.array([int(text, 16) for text in content["molecules"]], dtype=np.uint64)
        if version == rdkit.__version__:
            return np.isin(molecule_ids(smiles), known)
        why = f"{found} was written with RDKit {version}, and here is {rdkit.__version__}"
    elif (machine := kernel_machine(model)) is not None:
        return np.isin(molecule_ids(smiles), molecule_ids(machine.process_.X_train_.smiles))
    else:
        why = f"no {FILE} in {folder}"
    logger.info(f"not known which of these molecules the training had: {why}")
    return None
