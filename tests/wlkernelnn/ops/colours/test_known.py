from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.inputs.graphs import random_packed
from tests.wlkernelnn.ops.colours.test_quotient import arrays
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.ops.colours import KnownColours, known, wl_colours

DEPTH = 3


def graphs(max_nodes: int = 6) -> PackedGraphs:
    """Directed graphs, with empty and edgeless ones, and many equal neighbourhoods."""
    return random_packed(80, max_nodes=max_nodes, num_edge_types=2)


def numbered(colours: KnownColours, data: PackedGraphs, batch_size: int = 9) -> np.ndarray:
    """The number of every node's last colour, batch by batch."""
    numbers = []
    for batch in PackedLoader(data, batch_size, quotient=DEPTH):
        codes = batch.x[batch.quotient.first].numpy()
        numbers.append(colours.numbers(codes, batch.quotient)[batch.quotient.node.numpy()])
    return np.concatenate(numbers)


def colours_of(data: PackedGraphs) -> np.ndarray:
    label, source, target, edge_type, _ = arrays(data)
    return wl_colours(label, source, target, DEPTH, edge_type)[-1]


def pairs(first: np.ndarray, second: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(first.tolist(), second.tolist(), strict=True))


def same_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = known._Rows.__init__

    def init(self: known._Rows, width: int, capacity: int) -> None:
        whole(self, width, capacity)
        self._factors = np.zeros_like(self._factors)

    monkeypatch.setattr(known._Rows, "__init__", init)


@pytest.mark.parametrize("prepare", [lambda monkeypatch: None, same_hash], ids=["hashed", "all collide"])
def test_the_same_number_is_the_same_colour_in_all_batches(
    prepare: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(monkeypatch)
    monkeypatch.setattr(known, "MAX_NEIGHBOURS", 100)
    data, colours = graphs(), KnownColours(10_000)
    number, colour = numbered(colours, data), colours_of(data)
    assert number.min() >= 0
    assert len(pairs(number, colour)) == len(set(number.tolist())) == len(set(colour.tolist()))
    assert len(colours) == number.max() + 1 == len(set(colour.tolist()))
    # Nothing is new the second time, in whatever company.
    order = np.random.default_rng(0).permutation(len(data))
    nodes = np.concatenate([np.arange(*data.arrays.node_ptr[g : g + 2].tolist()) for g in order])
    np.testing.assert_array_equal(numbered(colours, data[order], 31), number[nodes])
    assert len(colours) == len(set(colour.tolist()))


def test_no_more_than_there_is_room_for() -> None:
    data = graphs()
    whole, colour = numbered(KnownColours(10_000), data), colours_of(data)
    few = KnownColours(40)
    number = numbered(few, data)
    kept = number >= 0
    assert 0 < len(few) <= 40 < whole.max() + 1
    assert number.max() == len(few) - 1
    assert len(pairs(number[kept], colour[kept])) == len(set(number[kept].tolist()))
    # What is made of colours that are not remembered is not remembered either, however often it comes.
    np.testing.assert_array_equal(numbered(few, data), number)


def stars(*leaves: int) -> PackedGraphs:
    """Node 0 with an edge from each of some other nodes."""
    edges = [[leaf, 0] for number in leaves for leaf in range(1, number + 1)]
    node_ptr, edge_ptr = np.cumsum([0, *(number + 1 for number in leaves)]), np.cumsum([0, *leaves])
    return PackedGraphs.pack(np.ones((node_ptr[-1], 1), int), np.array(edges).T, node_ptr, edge_ptr)


def test_crowded_nodes_are_not_remembered() -> None:
    leaves = [known.MAX_NEIGHBOURS, known.MAX_NEIGHBOURS + 1]
    centres = np.cumsum([0, leaves[0] + 1])
    for batch_size in (1, 2):
        number = numbered(KnownColours(100), stars(*leaves), batch_size)
        assert number[centres].tolist() == [0, -1]
        assert set(np.delete(number, centres).tolist()) == {1}


@pytest.mark.parametrize("prepare", [lambda monkeypatch: None, same_hash], ids=["hashed", "all-collide"])
@pytest.mark.parametrize("leaves", [(6, 4), (4, 6)])
def test_wide_and_narrow_batches(
    leaves: tuple[int, int],
    prepare: Callable[[pytest.MonkeyPatch], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first neighbours of one are all that the other has."""
    prepare(monkeypatch)
    colours = KnownColours(100)
    first, second = (numbered(colours, stars(number))[0] for number in leaves)
    assert first != second
    assert [numbered(colours, stars(number))[0] for number in leaves] == [first, second]


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
        KnownColours(0)
    data, colours = graphs(), KnownColours(10)
    numbered(colours, data)
    (batch,) = PackedLoader(data, 1000, quotient=DEPTH - 1)
    codes = batch.x[batch.quotient.first]
    with pytest.raises(ValueError, match=r"had 3 codes and 3 iterations, this one has 3 and 2"):
        colours.numbers(codes.numpy(), batch.quotient)
    (batch,) = PackedLoader(data, 1000, quotient=DEPTH)
    codes = batch.x[batch.quotient.first]
    with pytest.raises(ValueError, match=r"this one has 6 and 3"):
        colours.numbers(torch.cat([codes, codes], 1).numpy(), batch.quotient)
