"""What may stand beside the codes of atoms: ring counts, Morgan fingerprints, RDKit's descriptors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator, rdMolDescriptors

# Sizes that have a column of their own; the next column is of all larger rings.
SIZES = (3, 4, 5, 6, 7, 8)
#: Names of the columns.
COLUMNS = (*(f"rings_of_{size}" for size in SIZES), "larger_rings")
#: A column says 0, 1, … and this many or more.
MOST = 3


def ring_counts(ring_sizes: np.ndarray, members: np.ndarray, num_atoms: int) -> np.ndarray:
    """How many rings of each size go through an atom, a structural encoding as of Bouritsas et al. 2022.

    ``members [ring_sizes.sum()]`` are the atoms of the first ring, of the second, …; the counts are uint8
    ``[num_atoms, len(COLUMNS)]``, at most ``MOST``.
    """
    column = np.searchsorted(SIZES, ring_sizes)
    place = members * len(COLUMNS) + np.repeat(column, ring_sizes)
    counts = np.bincount(place, minlength=num_atoms * len(COLUMNS))
    return counts.clip(max=MOST).astype(np.uint8).reshape(num_atoms, len(COLUMNS))


# Donor, acceptor, aromatic, halogen, basic, acidic: a bit each.
NUM_PHARMACOPHORES = 2**6


def pharmacophores(molecule: Chem.Mol) -> list[int]:
    """The features that FCFP gives each atom (Rogers and Hahn 2010), as the bits of a number."""
    return [*rdMolDescriptors.GetFeatureInvariants(molecule)]


# What is called ECFP4: neighbourhoods of up to two bonds.
RADIUS, SIZE = 2, 2048


def morgan_counts(molecule: Chem.Mol) -> np.ndarray:
    """How often each neighbourhood occurs (Rogers and Hahn 2010): uint8 ``[SIZE]``, at most 255."""
    # To make one takes a fiftieth of the time; it does not travel to other processes.
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=SIZE)
    return np.minimum(generator.GetCountFingerprintAsNumPy(molecule), 255).astype(np.uint8)


# Beyond so many atoms what RDKit computes of all pairs of atoms, or of all paths, takes seconds, and then
# minutes.
_OF_PAIRS, _MOST_OF_PAIRS = ("Ipc", "BCUT2D", "EState", "BalabanJ", "BertzCT"), 200
_OF_PATHS, _MOST_OF_PATHS = ("Chi2", "Chi3", "Chi4", "Kappa2", "Kappa3", "Phi"), 400


# Three quarters of the time of all, 9 of 12 ms a molecule; without them predictions are as good.
_SLOW = ("qed", "SPS", *_OF_PAIRS)


def descriptor_names(which: str = "rdkit") -> list[str]:
    """All that this RDKit knows, in their order, or ``"descriptors"``: those that take little time."""
    names = [name for name, _ in _known().descList]
    return [name for name in names if which == "rdkit" or not any(part in name for part in _SLOW)]


def descriptors(molecule: Chem.Mol, names: Collection[str] | None = None) -> np.ndarray:
    """Weight, surface, partial charges, counts of rings and groups, solubility by contributions, …

    float32 ``[len(names)]``, in RDKit's order, of all if there are no ``names``; 0 where a molecule has no
    value, and at most what a float32 holds. Of more than 200 atoms those of all pairs of atoms, which take
    seconds to minutes, are 0, except for ``Ipc``, which has reached that largest number before; of more than
    400 atoms also those of paths (``Chi2n`` … ``Chi4v``, ``Kappa2``,
    ``Kappa3``, ``Phi``).
    """
    most = float(np.finfo(np.float32).max)
    with np.errstate(all="ignore"):
        known = [pair for pair in _known().descList if names is None or pair[0] in names]
        values = np.array([_value(name, compute, molecule) for name, compute in known])
    return np.nan_to_num(values, nan=0.0, posinf=most, neginf=-most).clip(-most, most).astype(np.float32)


def _value(name: str, compute: Callable[[Chem.Mol], float], molecule: Chem.Mol) -> float:
    size = molecule.GetNumAtoms()
    if size > _MOST_OF_PAIRS and any(part in name for part in _OF_PAIRS):
        return float(np.finfo(np.float32).max) if name == "Ipc" else 0.0
    if size > _MOST_OF_PATHS and name.startswith(_OF_PATHS):
        return 0.0
    try:
        return float(compute(molecule))
    except Exception:  # of many kinds, by what a descriptor cannot deal with
        return 0.0


def _known() -> Any:
    # It takes a while to import, which only who wants descriptors is to wait for.
    from rdkit.Chem import Descriptors

    return Descriptors
