"""A picture of one molecule by its colours: the rows that a network computes, and what they are made of."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure
from rdkit import Chem
from rdkit.Chem import rdDepictor

from wlkernelnn.colours import Colouring, colour_batch
from wlkernelnn.datasets import featurize

SMILES, DEPTH = "Cc1ccc(-c2ccccc2)cc1", 2  # 4-methylbiphenyl


def draw_colours(smiles: str = SMILES, depth: int = DEPTH) -> Figure:
    """The molecule, its atoms in their colours after ``depth`` iterations; the steps between the levels."""
    mol = Chem.MolFromSmiles(smiles)
    rdDepictor.Compute2DCoords(mol)
    place = mol.GetConformer().GetPositions()[:, :2]
    data = featurize([smiles])[0][0]
    owner = data.edge_index.new_zeros(data.num_nodes)
    colours = colour_batch(depth, data.edge_index, owner, [data.x], [data.edge_type])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.6), layout="constrained", width_ratios=(1.1, 1))
    last = colours.quotient.node.tolist()
    palette = plt.get_cmap("tab10")
    for bond in mol.GetBonds():
        ends = place[[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()]]
        left.plot(*ends.T, color="lightgray", zorder=1)
    left.scatter(*place.T, s=160, c=[palette(colour) for colour in last], zorder=2)
    left.set_aspect("equal")
    left.set_axis_off()
    left.margins(0.1, 0.25)
    left.set_title(f"{len(last)} atoms, {max(last) + 1} colours after {depth} iterations", fontsize=9)
    draw_steps(colours, right, palette)
    return figure


def draw_steps(colours: Colouring, axes: Axes, palette: Colormap) -> None:
    """Levels from below to above, and lines from colours to those that they are part of."""
    depth = len(colours.steps)
    sizes = [colours.count("node", level) for level in range(depth + 1)]
    x = [[(i + 0.5) / size for i in range(size)] for size in sizes]
    for level, step in enumerate(colours.steps):
        for source, target in step.edge_index.t().tolist():
            ends = [x[level][source], x[level + 1][target]], [level, level + 1]
            axes.plot(*ends, color="gray", lw=0.7, zorder=1)
        for target, source in enumerate(step.own.tolist()):
            ends = [x[level][source], x[level + 1][target]], [level, level + 1]
            axes.plot(*ends, color="gray", lw=0.7, ls=":", zorder=1)
    for level, size in enumerate(sizes):
        color = [palette(i) if level == depth else "white" for i in range(size)]
        axes.scatter(x[level], [level] * size, s=160, c=color, edgecolors="black", linewidths=0.6, zorder=2)
        for i, count in enumerate(colours.weights[level].tolist()):
            axes.text(x[level][i], level, count, ha="center", va="center", fontsize=7, zorder=3)
    axes.set_yticks(range(depth + 1), [f"level {level}" for level in range(depth + 1)], fontsize=8)
    axes.set_xticks([])
    axes.spines[:].set_visible(False)
    axes.set_title("rows of the layers, and how many atoms each is", fontsize=9)
