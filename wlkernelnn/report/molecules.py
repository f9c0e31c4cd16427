"""Molecules of a page: drawings, and the training molecules that are nearest."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.kernels import WLSubtreeKernel

from .panels import drawn

# What each bond says, and what SVG does anyway, or hardly otherwise.
_BOND_STYLE = ";stroke-linecap:butt;stroke-linejoin:miter;stroke-opacity:1"
#: Of larger molecules there is no drawing: it would show nothing.
MOST_ATOMS = 150
#: At most so many training molecules are compared with: a second for 200 molecules.
MOST_TRAINING = 5000


class Nearest(NamedTuple):
    """The training molecule that is most similar to each of some molecules.

    Attributes:
        similarity: From 0 to 1, ``[n]``.
        place: Its position in the training part, ``[n]``.
        compared: With how many training molecules each was compared.
    """

    similarity: np.ndarray
    place: np.ndarray
    compared: int


def sketch(smiles: str, width: int = 260, height: int = 180) -> str:
    """A molecule as SVG that stands within a page; ``""`` where there is nothing to see."""
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or not 0 < molecule.GetNumAtoms() <= MOST_ATOMS:
        return ""
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.fixedBondLength = 24  # at most: small molecules stay small
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    drawer.FinishDrawing()
    return inline(drawer.GetDrawingText())


def inline(svg: str) -> str:
    """RDKit's SVG without what only a file of its own needs; the page says how large it is."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<!-- .*? -->|\s+xmlns(?::\w+)?='[^']*'|\s+xml:space='[^']*'", "", svg)
    svg = re.sub(r"\bwidth='[^']*px' height='[^']*px'", "", svg, count=1)
    return svg.replace(_BOND_STYLE, "")


def nearest_training(data: PackedGraphs, train: PackedGraphs) -> Nearest:
    """By the min-max kernel of Weisfeiler-Lehman colours after 0, 1 and 2 iterations: 1 of equal counts.

    Args:
        data: Molecules.
        train: Training molecules with the same features, at least one; of more than 5,000 some are drawn.
    """
    some = drawn(len(train), MOST_TRAINING)
    coding = "ogb" if train.description.features.startswith("ogb") else None
    kernel = WLSubtreeKernel(2, normalize="minmax", coding=coding)
    values: Any = kernel(data, train if len(some) == len(train) else train[some])
    best = values.argmax(axis=1)
    return Nearest(values[np.arange(len(best)), best], some[best], len(some))
