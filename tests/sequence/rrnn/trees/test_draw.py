from __future__ import annotations

import matplotlib
import torch

from wlkernelnn.sequence.rrnn import GRU, Leaf, draw_tree, internal_nodes, tree_of

matplotlib.use("Agg")
from matplotlib import pyplot


def test_the_gru() -> None:
    nothing = torch.empty(0)
    nodes = [node._replace(tuple_index=node.tuple_index % 4) for node in GRU.nodes]
    tree = tree_of([Leaf(name, nothing) for name in ("x", "h", "0")], nodes, [nothing] * len(nodes))
    figure, axis = pyplot.subplots()
    draw_tree(tree, axis)
    figure.canvas.draw()  # a sign that the font lacks would be a warning
    labels = [text.get_text() for text in axis.texts]
    # Figure 1: 9 internal nodes, z twice; x and h feed gates, and 0 stands beside z in 1 − z.
    assert sorted(labels) == sorted(
        ["x"] * 4
        + ["h"] * 5
        + ["0", "σ\n+ 0", "σ\n+ 1", "σ\n+ 1", "id\n× 3", "1 −\n+ 3", "tanh\n+ 2"]
        + ["id\n× 3", "id\n× 3", "id\n+ 3"]
    )
    root = next(text for text in axis.texts if text.get_text() == "id\n+ 3")
    heights = [text.get_position()[1] for text in axis.texts]
    assert root.get_position()[1] == max(heights)
    assert len(axis.lines) == len(labels) - 1 == 2 * len(internal_nodes(tree))
    places = [text.get_position() for text in axis.texts]
    assert len(set(places)) == len(places)
    leaves = [place for place, label in zip(places, labels, strict=True) if label in ("x", "h", "0")]
    assert sorted(x for x, _ in leaves) == list(range(10))
    pyplot.close(figure)
