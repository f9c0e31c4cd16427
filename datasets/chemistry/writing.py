"""Molecules of RDKit and MOL blocks as SMILES, or why there is none."""

from __future__ import annotations

from typing import NamedTuple

from rdkit import Chem, rdBase

from .perception import FIXED


class Written(NamedTuple):
    """Canonical SMILES with isotopes and stereochemistry; without one, the reason."""

    smiles: str
    reason: str = ""


def smiles_of(molecule: Chem.Mol) -> Written:
    """The SMILES of a molecule, without explicit hydrogens where RDKit's own reader has none."""
    with FIXED:
        try:
            text = Chem.MolToSmiles(Chem.RemoveHs(molecule))
        except Exception as error:  # Boost.Python lets through whatever RDKit throws
            return Written("", f"RDKit fails with {type(error).__name__}: {str(error).strip()[:200]}")
    return Written(text, "" if text else "no atoms")


def smiles_of_block(block: str) -> Written:
    """The SMILES of a MOL block, V2000 or V3000.

    Stereochemistry is read from 3D coordinates or, where a drawing is flat, from its wedges and double bonds.
    """
    with FIXED:
        try:
            molecule = Chem.MolFromMolBlock(block)
        except Exception:
            molecule = None
        if molecule is not None:
            return smiles_of(molecule)
        return Written("", _complaint(block))


# What RDKit says beside the reason.
_NOISE = ("moving to the beginning", "Could not sanitize")


def _complaint(block: str) -> str:
    """What RDKit logs of a MOL block that it does not read; only its supplier says it in the error log."""
    supplier = Chem.SDMolSupplier()
    with FIXED, rdBase.CaptureErrorLog() as log:
        try:
            supplier.SetData(block)
            supplier[0]
        except Exception:  # no record at all
            return "not a MOL block"
    lines = (line.partition("] ")[2].removeprefix("ERROR: ")[:200] for line in log.messages.splitlines())
    said = dict.fromkeys(line for line in lines if line.strip() and not line.startswith(_NOISE))
    return "; ".join(list(said)[:2]) or "not a MOL block"
