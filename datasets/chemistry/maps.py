"""Numbers that label atoms, as reactions have them: they are no part of the molecule."""

from __future__ import annotations

import re

# Inside brackets alone: elsewhere a colon is an aromatic bond. An atom with two numbers is none.
_MAP = re.compile(r"(\[[^][:]*):[0-9]+\]")


def unmapped(smiles: str) -> str:
    """A SMILES without atom-map numbers: ``[CH3:1][OH:2]`` is ``[CH3][OH]``.

    RDKit takes atoms with other numbers for different: symmetric centres become stereocentres, and canonical
    SMILES differ.
    """
    return _MAP.sub(r"\1]", smiles) if ":" in smiles else smiles
