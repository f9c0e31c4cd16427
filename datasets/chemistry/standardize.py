"""Molecules in one standard form: cleaned up, without salts and solvents, and without charges."""

from __future__ import annotations

from collections.abc import Sequence

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from .maps import unmapped
from .perception import FIXED

#: The steps, in their order.
STEPS = ("cleanup", "fragment", "uncharge")
#: The canonical SMILES of a standard form, the steps that changed something, and why there is none. A plain
#: tuple, as other processes have this code without our package.
Form = tuple[str, tuple[str, ...], str]


def standardize_chunk(smiles: Sequence[str]) -> list[Form]:
    """Standardize molecules by RDKit's MolStandardize.

    1. ``cleanup``: bonds between metals and N, O, F or, of some metals, any other non-metal are taken apart,
       groups such as nitro are written in one way, and charges sit on the strongest acids.
    2. ``fragment``: the largest fragment alone is kept, an organic one if there is any.
    3. ``uncharge``: charges are neutralised by hydrogens where that is possible.

    Atom-map numbers go before. Tautomers, isotopes and stereochemistry stay as they are. So does a SMILES
    that RDKit does not read.
    """
    parameters = rdMolStandardize.CleanupParameters()
    parameters.preferOrganic = True  # type: ignore[assignment]
    largest = rdMolStandardize.LargestFragmentChooser(parameters)
    neutral = rdMolStandardize.Uncharger(True)
    work = (
        lambda molecule: rdMolStandardize.Cleanup(molecule, parameters),
        largest.choose,
        neutral.uncharge,
    )
    result: list[Form] = []
    with FIXED:
        for text in smiles:
            try:
                molecule = Chem.MolFromSmiles(unmapped(text))
                if molecule is None or not molecule.GetNumAtoms():
                    result.append((text, (), ""))
                    continue
                forms = [Chem.MolToSmiles(molecule)]
                for step in work:
                    molecule = step(molecule)
                    forms.append(Chem.MolToSmiles(molecule))
                if Chem.MolFromSmiles(forms[-1]) is None:
                    raise ValueError(f"gives {forms[-1]}, which cannot be")
            except Exception as error:  # of many kinds, by what RDKit cannot deal with
                said = str(error).strip().partition("\n")[0][:200]
                result.append(("", (), f"cannot be standardized: {said}"))
                continue
            steps = [name for name, a, b in zip(STEPS, forms, forms[1:], strict=False) if a != b]
            result.append((forms[-1], tuple(steps), ""))
    return result
