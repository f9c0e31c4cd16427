"""Pictures of trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .trees import Leaf, Tree

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OPERATIONS = {"add": "+", "mul": "×"}
_ACTIVATIONS = {"sigmoid": "σ", "tanh": "tanh", "relu": "ReLU", "one_minus": "1 −", "identity": "id"}


def draw_tree(tree: Tree, ax: Axes, fontsize: float = 8) -> None:
    """Draw a tree as figure 1 of Qian et al. does, on Matplotlib's axes, without their frame.

    A node shows its activation, and below it operation and tuple (counted from 0); a leaf its name. A node
    that is used twice is drawn twice.
    """
    num_leaves = 0

    def draw(part: Tree, depth: int) -> float:
        """The place of a node that was drawn, with all below it."""
        nonlocal num_leaves
        if isinstance(part, Leaf):
            place, label, color = float(num_leaves), part.name, "0.9"
            num_leaves += 1
        else:
            children = [draw(child, depth + 1) for child in (part.left, part.right)]
            place = sum(children) / 2
            for child in children:
                ax.plot([place, child], [-depth, -depth - 1], color="0.5", linewidth=0.8, zorder=1)
            operation, activation = _OPERATIONS[part.operation], _ACTIVATIONS[part.activation]
            label, color = f"{activation}\n{operation} {part.tuple_index}", "white"
        box = {"boxstyle": "round", "facecolor": color, "edgecolor": "0.5", "linewidth": 0.8}
        ax.text(place, -depth, label, ha="center", va="center", fontsize=fontsize, bbox=box, zorder=2)
        return place

    draw(tree, 0)
    ax.margins(0.15)
    ax.set_axis_off()
