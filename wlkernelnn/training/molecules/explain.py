"""Which atoms make a prediction what it is, in numbers and drawings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from rdkit import Chem
from rdkit.Chem.Draw import rdMolDraw2D

from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.ring_nodes import atom_shares
from wlkernelnn.models import GraphNetwork
from wlkernelnn.utils.modes import evaluating


@torch.no_grad()
def atom_contributions(
    networks: Sequence[GraphNetwork], data: PackedGraphs, batch_size: int = 512
) -> np.ndarray:
    """The contribution of every atom, see :meth:`GraphNetwork.contributions`: the mean over networks.

    Args:
        networks: Trained networks of the same targets, such as those of an
            :class:`~wlkernelnn.training.Ensemble`; they are used in evaluation mode, where they are.
        data: Molecules with the features that the networks were trained on.
        batch_size: Molecules at once.

    Returns:
        float32 ``[ΣV, num_tasks]``, the atoms of all molecules end to end, in the order of their SMILES.
        Where rings are nodes, the atoms of a ring have equal shares of what its node has.

    Raises:
        ValueError: No networks, or molecules whose codes a network does not take.
    """
    if not networks:
        raise ValueError("expected at least one network")
    each = []
    for net in networks:
        device, width = net.target_mean.device, net.target_mean.numel()
        with evaluating(net):
            parts = [
                net.contributions(batch.to(device)).cpu().numpy()
                for batch in PackedLoader(data, batch_size, num_replicas=1)
            ]
        each.append(np.concatenate([np.zeros((0, width), np.float32), *parts]))
    return atom_shares(flat_graphs(data))[0].astype(np.float32) @ np.mean(each, axis=0)


def drawing(
    smiles: str,
    contributions: np.ndarray,
    least: float = 0.0,
    width: int = 400,
    height: int = 300,
    values: bool = False,
) -> str:
    """A molecule as SVG: red atoms add to what is predicted, blue ones take from it.

    Args:
        smiles: The molecule.
        contributions: ``[V]``, of its atoms. The strongest colour is that of the largest of them: the colours
            of two molecules do not compare.
        least: What the strongest colour stands for at least, so that rounding is not painted.
        width, height: In pixels.
        values: Write the contribution beside each atom that has at least a quarter of the largest.

    Raises:
        ValueError: The SMILES gives no molecule, or one of another number of atoms, or a contribution is not
            finite.
    """
    molecule = Chem.MolFromSmiles(smiles)
    if molecule is None or np.shape(contributions) != (molecule.GetNumAtoms(),):
        atoms = "no molecule" if molecule is None else f"{molecule.GetNumAtoms()} atoms"
        raise ValueError(f"{smiles!r}: {atoms}, and contributions of shape {list(np.shape(contributions))}")
    if not np.isfinite(contributions).all():
        raise ValueError(f"{smiles!r}: expected finite contributions, got {np.asarray(contributions)}")
    largest = float(np.abs(contributions).max(initial=least)) or 1.0
    for atom, value in zip(molecule.GetAtoms(), np.asarray(contributions).tolist(), strict=True):
        if values and abs(value) >= largest / 4:
            atom.SetProp("atomNote", f"{value:+.2g}")
    colours = colormaps["bwr"](0.5 + 0.5 * np.asarray(contributions) / largest)
    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options: Any = drawer.drawOptions()
    options.annotationFontScale = 0.8
    rdMolDraw2D.PrepareAndDrawMolecule(
        drawer,
        molecule,
        highlightAtoms=list(range(len(colours))),
        highlightAtomColors={atom: tuple(colour) for atom, colour in enumerate(colours[:, :3].tolist())},
        highlightBonds=[],
    )
    drawer.FinishDrawing()
    return drawer.GetDrawingText()
