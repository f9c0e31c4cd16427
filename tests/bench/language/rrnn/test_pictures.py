from __future__ import annotations

import json
from pathlib import Path

from wlkernelnn.bench.language.rrnn.pictures import draw, tree_from
from wlkernelnn.sequence.rrnn import GRU, Node, internal_nodes


def test_tree_from_a_file() -> None:
    made = json.loads(json.dumps([node._replace(tuple_index=3) for node in GRU.nodes]))
    tree = tree_from(made)
    assert isinstance(tree, Node)
    assert len(internal_nodes(tree)) == 9
    assert str(tree).startswith("identity3(identity3(h * sigmoid3(x + h)) + ")


def test_nothing_to_draw(tmp_path: Path) -> None:
    gru = {"task": "sst", "model": "gru", "seed": 0, "common_trees": {}}
    draw([gru], tmp_path / "sst.png")
    assert not list(tmp_path.iterdir())


def test_what_diverged_is_not_drawn(tmp_path: Path) -> None:
    lost = {"task": "sst", "model": "rrnn-gru", "seed": 0, "diverged": 3}
    draw([lost], tmp_path / "sst.png")
    assert not list(tmp_path.iterdir())
