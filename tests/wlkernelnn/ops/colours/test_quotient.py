from __future__ import annotations

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from tests.inputs.graphs import random_packed
from wlkernelnn.datasets import PackedGraphs
from wlkernelnn.ops.colours import Quotient, is_of, quotient_of, wl_colours, wl_quotient


def arrays(data: PackedGraphs) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Labels, sources, targets, edge types, and graph of every node, for all graphs of a store."""
    a = data.arrays
    first = np.repeat(a.node_ptr[:-1].numpy(), a.edge_ptr.diff().numpy())
    graph = np.repeat(np.arange(len(data)), a.node_ptr.diff().numpy())
    target = np.repeat(np.arange(len(graph)), a.in_degree.numpy())
    return a.node_type.numpy(), a.source.numpy() + first, target, a.edge_type.numpy().astype(np.int64), graph


def made(data: PackedGraphs, depth: int) -> tuple[Quotient, list[np.ndarray]]:
    label, source, target, edge_type, graph = arrays(data)
    colours = wl_colours(label, source, target, depth, edge_type)
    indptr = np.searchsorted(target, np.arange(len(graph) + 1))
    return wl_quotient(colours, source, indptr, edge_type, graph, len(data)), colours


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_every_colour_once_with_what_it_is_made_of(depth: int, seed: int) -> None:
    data = random_packed(30, seed, max_nodes=5, num_edge_types=2)
    _, source, target, edge_type, graph = arrays(data)
    quotient, colours = made(data, depth)
    assert quotient.depth == depth
    # Which row each node has at every level: from the last one down.
    rows = [quotient.node.numpy()]
    for level in reversed(quotient.levels):
        rows.insert(0, level.own.numpy()[rows[0]])
    for row, colour in zip(rows, colours, strict=True):
        # Rows and colours are the same classes, and every row is somebody's.
        assert len(set(zip(row, colour, strict=True))) == len(set(row)) == len(set(colour))
        assert sorted(set(row)) == list(range(len(set(row))))
    np.testing.assert_array_equal(rows[0][quotient.first.numpy()], np.arange(len(quotient.first)))
    for t, level in enumerate(quotient.levels):
        assert level.target.tolist() == sorted(level.target.tolist())
        for v in range(len(graph)):
            c = rows[t + 1][v]
            edges = slice(level.indptr[c], level.indptr[c + 1])
            assert bool((level.target[edges] == c).all())
            came = sorted(zip(level.source[edges].tolist(), level.edge_type[edges].tolist(), strict=True))
            into = target == v
            expected = sorted(zip(rows[t][source[into]].tolist(), edge_type[into].tolist(), strict=True))
            assert came == expected
    for g in range(len(data)):
        members = slice(quotient.indptr[g], quotient.indptr[g + 1])
        expected_rows, counts = np.unique(rows[-1][graph == g], return_counts=True)
        times = quotient.multiplicity[members].tolist()
        came = dict(zip(quotient.colour[members].tolist(), times, strict=True))
        assert came == dict(zip(expected_rows.tolist(), counts.tolist(), strict=True))
        assert bool((quotient.graph[members] == g).all())


def test_colours_of_a_larger_collection_will_do() -> None:
    """Numbers with gaps: only equality counts."""
    data = random_packed(12, max_nodes=4, num_edge_types=1)
    quotient, colours = made(data, 2)
    _, source, target, edge_type, graph = arrays(data)
    indptr = np.searchsorted(target, np.arange(len(graph) + 1))
    sparse = [(7 * colour + 3).astype(np.int32) for colour in colours]
    again = wl_quotient(sparse, source, indptr, edge_type, graph, len(data))
    for ours, theirs in zip(flat(quotient), flat(again), strict=True):
        assert torch.equal(ours, theirs)


def flat(quotient: Quotient) -> list[torch.Tensor]:
    return [
        *(t for level in quotient.levels for t in level),
        *(t for t in quotient if isinstance(t, torch.Tensor)),
    ]


def test_nothing() -> None:
    none = np.zeros(0, np.int64)
    quotient = wl_quotient([none, none], none, np.zeros(1, np.int64), none, none, 0)
    assert quotient.first.shape == quotient.node.shape == (0,)
    assert quotient.indptr.tolist() == [0]


def test_a_quotient_moves_with_its_batch() -> None:
    quotient, _ = made(random_packed(4), 1)
    batch = Data(x=torch.zeros(3, 1), quotient=quotient)
    moved = batch.to("meta").quotient
    assert isinstance(moved, Quotient)
    assert {t.device.type for t in flat(moved)} == {"meta"}
    assert moved.depth == 1


def test_some_of_the_colours_with_all_that_they_are_made_of() -> None:
    quotient, _ = made(random_packed(30, max_nodes=5, num_edge_types=2), 3)

    def unfolded(some: Quotient, level: int, colour: int) -> object:
        """A colour as a tree down to the nodes that show the colours 0."""
        if not level:
            return int(some.first[colour])
        below = some.levels[level - 1]
        edges = range(int(below.indptr[colour]), int(below.indptr[colour + 1]))
        assert below.target[edges.start : edges.stop].tolist() == [colour] * len(edges)
        around = [(int(below.edge_type[e]), unfolded(some, level - 1, int(below.source[e]))) for e in edges]
        return unfolded(some, level - 1, int(below.own[colour])), tuple(around)

    num_colours = quotient.levels[-1].own.numel()
    wanted = np.arange(1, num_colours, 3)
    part = quotient_of(quotient, wanted)
    for row, colour in enumerate(wanted.tolist()):
        assert unfolded(part, 3, row) == unfolded(quotient, 3, colour)
    # Nothing else is there.
    for level, above in zip(part.levels[:-1], part.levels[1:], strict=True):
        assert level.own.numel() == len({*above.own.tolist(), *above.source.tolist()})
    assert part.node.tolist() == part.colour.tolist() == part.graph.tolist() == list(range(len(wanted)))
    whole = quotient_of(quotient, np.arange(num_colours))
    for one, other in zip(whole.levels, quotient.levels, strict=True):
        assert all(map(torch.equal, one, other))


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_of_which_batch_it_is(depth: int, seed: int) -> None:
    """Of any with the same codes and neighbourhoods, in whatever order its edges come, and of no other."""
    data = random_packed(30, seed, max_nodes=5, num_edge_types=2)
    quotient, (first, *_) = made(data, depth)
    _, source, target, edge_type, _ = arrays(data)
    x, edges, types = torch.from_numpy(first)[:, None], torch.tensor(np.stack([source, target])), edge_type
    order, types, ptr = torch.randperm(len(source)), torch.from_numpy(types), data.arrays.node_ptr
    assert is_of(quotient, x, edges[:, order], types[order], ptr)
    assert is_of(quotient, x * 7 + 3, edges, types.int(), ptr)
    assert not is_of(quotient, x[1:], edges, types, ptr)
    assert not is_of(quotient, torch.arange(len(x))[:, None] // 2, edges, types, ptr)
    shifted = ptr.clone()
    shifted[3] += 1
    for wrong in (shifted, ptr[1:], torch.cat([ptr, ptr[-1:]])):
        assert not is_of(quotient, x, edges, types, wrong)
    if not depth:
        return
    assert not is_of(quotient, x, edges, None, ptr)
    assert not is_of(quotient, x, edges[:, 1:], types[1:], ptr)
    assert not is_of(quotient, x, edges, 1 - types, ptr)
    for wrong in (edges.double(), edges[:1], edges[0], edges + 1, edges - 1):
        assert not is_of(quotient, x, wrong, types, ptr)
    assert not is_of(quotient, x, edges, types[1:], ptr)
    assert not is_of(quotient, x, edges, types.double(), ptr)


def test_neighbours_whose_numbers_have_the_same_sum() -> None:
    label, source, target, types = np.arange(4), np.array([0, 2]), np.array([3, 3]), np.zeros(2, np.int64)
    colours = wl_colours(label, source, target, 1, types)
    quotient = wl_quotient(colours, source, np.array([0, 0, 0, 0, 2]), types, np.zeros(4, np.int64), 1)
    x = torch.from_numpy(label)[:, None]
    ptr = torch.tensor([0, 4])
    assert is_of(quotient, x, torch.tensor([[0, 2], [3, 3]]), None, ptr)
    assert not is_of(quotient, x, torch.tensor([[1, 1], [3, 3]]), None, ptr)


def test_no_nodes_have_no_edges() -> None:
    none = np.zeros(0, np.int64)
    quotient = wl_quotient(wl_colours(none, none, none, 1, none), none, np.zeros(1, np.int64), none, none, 2)
    x, ptr = torch.empty(0, 1, dtype=torch.long), torch.zeros(3, dtype=torch.long)
    assert is_of(quotient, x, torch.empty(2, 0, dtype=torch.long), None, ptr)
    assert not is_of(quotient, x, torch.zeros(2, 1, dtype=torch.long), None, ptr)
