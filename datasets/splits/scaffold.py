"""Splits by Bemis-Murcko scaffold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rdkit import Chem
from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles

from wlkernelnn.datasets.chemistry.maps import unmapped
from wlkernelnn.datasets.chemistry.perception import FIXED

from .parts import Sizes, SplitIndex, check_sizes, largest_first


def scaffolds(smiles: Sequence[str], chirality: bool = True) -> list[str]:
    """Bemis-Murcko scaffold of every molecule as SMILES; ``""`` for acyclic molecules.

    Molecules that RDKit cannot read, or cannot cut, count as acyclic (so does the published ogbg-molhiv set).
    With ``chirality``, scaffolds that differ in their stereochemistry alone are two.
    """
    with FIXED:
        return [_scaffold(text, chirality) for text in smiles]


def scaffold_split(
    smiles: Sequence[str], sizes: Sizes = (0.8, 0.1, 0.1), chirality: bool = True
) -> SplitIndex:
    """Split molecules so that no scaffold lies in two parts: OGB's recipe or, without chirality, DeepChem's.

    Molecules with the same Bemis-Murcko scaffold (:func:`scaffolds`) form a group; all acyclic molecules are
    one group. The groups, largest first and of equal ones the one that begins later first, fill train, then
    valid; a group that would overfill valid too goes to test. Equals the published index sets of
    ogbg-molesol, -molfreesolv and -molbbbp. Nothing about it is random, and no molecule is left out.

    OGB's scaffolds have chirality: stereoisomers may then lie in two parts. Without it they stay together.

    Returns and raises as :func:`random_split` (a part stays empty where one scaffold holds most molecules);
    logs a warning of parts far from their sizes, with the largest group.
    """
    check_sizes(sizes)
    groups: dict[str, list[int]] = defaultdict(list)
    for position, scaffold in enumerate(scaffolds(smiles, chirality)):
        groups[scaffold].append(position)
    largest = max(groups, key=lambda scaffold: len(groups[scaffold]), default="")
    what = f"of scaffold {largest}" if largest else "of acyclic molecules"
    return largest_first(list(groups.values()), sizes, "scaffold", what)


def _scaffold(smiles: str, chirality: bool) -> str:
    try:
        molecule = Chem.MolFromSmiles(unmapped(smiles))
        return MurckoScaffoldSmiles(mol=molecule, includeChirality=chirality) or ""
    except (RuntimeError, ValueError):  # no molecule, or one that RDKit cannot cut
        return ""
