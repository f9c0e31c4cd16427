from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inputs.graphs import EDGES
from wlkernelnn.datasets import load_molecules
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.labels import edge_labels, node_labels
from wlkernelnn.ops.colours import refine as exact
from wlkernelnn.ops.colours import wl_colours, wl_colours_naive
from wlkernelnn.ops.colours.refine import packed_columns

NONE = np.zeros(0, dtype=np.int64)
SQUARE = {name: edges for name, edges in EDGES.items() if edges.num_sources == edges.num_targets}


def assert_same_partitions(ours: list[np.ndarray], expected: list[np.ndarray]) -> None:
    """The same nodes share colours, and colours are 0, 1, … without a gap."""
    assert len(ours) == len(expected)
    for colours, other in zip(ours, expected, strict=True):
        assert colours.dtype == np.int64
        assert colours.shape == other.shape
        pairs = set(zip(colours.tolist(), other.tolist(), strict=True))
        assert len(pairs) == len(set(colours.tolist())) == len(set(other.tolist()))
        assert set(colours.tolist()) == set(range(len(pairs)))


def assert_exact(
    label: np.ndarray, source: np.ndarray, target: np.ndarray, rounds: int, edge: np.ndarray | None = None
) -> list[np.ndarray]:
    ours = wl_colours(label, source, target, rounds, edge)
    assert_same_partitions(ours, wl_colours_naive(label, source, target, rounds, edge))
    return ours


@pytest.mark.parametrize("name", SQUARE)
@pytest.mark.parametrize("with_labels", [False, True])
def test_equals_the_definition(name: str, with_labels: bool) -> None:
    edges = SQUARE[name]
    source, target = edges.edge_index.numpy()
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3 if with_labels else 1, edges.num_targets)
    edge = rng.integers(-1, 2, len(source)) if with_labels else None
    assert_exact(label, source, target, 4, edge)


@st.composite
def inputs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    num_nodes = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Few targets: degrees on both sides of those that are compared one by one.
    num_edges = draw(st.integers(0, 60))
    source = rng.integers(0, num_nodes, num_edges)
    target = rng.integers(0, draw(st.integers(1, num_nodes)), num_edges)
    label = rng.integers(0, draw(st.integers(1, 3)), num_nodes) * draw(st.sampled_from([1, -(2**61)]))
    edge = rng.integers(0, 2, num_edges) * draw(st.sampled_from([1, 2**62])) if draw(st.booleans()) else None
    return label, source, target, edge


@settings(deadline=None, max_examples=150, derandomize=True)
@given(inputs())
def test_equals_the_definition_on_random_multigraphs(
    graph: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None],
) -> None:
    label, source, target, edge = graph
    assert_exact(label, source, target, 3, edge)


@pytest.mark.parametrize("degree", [8, 9])
def test_no_two_neighbourhoods_are_merged_where_fields_exceed_an_int64(degree: int) -> None:
    # 64 colours × 4 edge labels = 2⁸ codes: behind 8 neighbours the own colour stands at 2⁶⁴, which an int64
    # that runs over forgets. Nodes 64 and 65 differ in nothing else.
    label = np.concatenate([np.arange(64), [0, 1]])
    source = np.tile(np.arange(degree), 2)
    target = np.repeat([64, 65], degree)
    edge = np.tile(np.arange(degree) % 4, 2)
    _, colours = assert_exact(label, source, target, 1, edge)
    assert colours[64] != colours[65]


@pytest.mark.parametrize("degree", [2, 5, 8, 9])
def test_large_codes_are_packed_one_to_one(degree: int) -> None:
    # 13 bits of colours and 8 of edge labels: from the third neighbour on, a row exceeds 63 bits.
    rng = np.random.default_rng(degree)
    num_nodes, twins = 8000, 2000
    label = np.arange(num_nodes)
    label[-twins:] = 0
    around = rng.integers(0, 6, (twins // 2, degree))
    around = np.concatenate([around, around])  # every neighbourhood at least twice
    target = np.repeat(np.arange(num_nodes - twins, num_nodes), degree)
    edge = rng.integers(0, 2, len(target))
    edge[:200] = np.arange(200)
    _, colours = assert_exact(label, around.reshape(-1), target, 1, edge)
    assert num_nodes - twins < colours.max() < num_nodes - 1


@pytest.mark.parametrize("capacity", [2**6, 2**12])
def test_prefixes_are_numbered_before_they_exceed_the_capacity(
    capacity: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_CAPACITY", capacity)
    largest = 0
    factorize = exact.pd.factorize

    def watched(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        nonlocal largest
        largest = max(largest, int(values.max(initial=0)))
        return factorize(values)

    monkeypatch.setattr(exact.pd, "factorize", watched)
    rng = np.random.default_rng(0)
    columns = list(rng.integers(0, 2, (9, 30)))
    numbers = exact.packed_columns(columns, [2] * 9)
    assert max(largest, numbers.max()) < capacity
    assert len(set(numbers.tolist())) == len(np.unique(np.stack(columns), axis=1).T)


def test_degrees_in_the_hundreds() -> None:
    # Stars of 300, 300, and 301 leaves, one of which has a leaf of another label.
    leaves = np.array([300, 300, 301, 300])
    centre = np.repeat(np.arange(4), leaves)
    label = np.zeros(4 + leaves.sum(), dtype=np.int64)
    label[-1] = 1
    leaf = np.arange(4, len(label))
    order = np.random.default_rng(0).permutation(2 * len(leaf))
    source, target = np.concatenate([leaf, centre])[order], np.concatenate([centre, leaf])[order]
    colours = assert_exact(label, source, target, 3)
    assert colours[1][0] == colours[1][1]
    assert len(set(colours[1][:4].tolist())) == 3


def test_edges_count_in_their_direction() -> None:
    # On a directed path each round tells one more node from the rest: what comes in, not what goes out.
    colours = assert_exact(np.zeros(6, dtype=np.int64), np.arange(5), np.arange(1, 6), 4)
    assert [c.max() + 1 for c in colours] == [1, 2, 3, 4, 5]
    assert colours[2][3] == colours[2][5] != colours[2][1]


def test_multi_edges_are_counted() -> None:
    source, target = np.array([0, 0, 0]), np.array([1, 2, 2])
    colours = assert_exact(np.array([7, 0, 0]), source, target, 1)
    assert colours[1][1] != colours[1][2]


def test_a_stable_partition_is_not_refined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0
    refine = exact._Neighbours.refine

    def counted(*args: object) -> tuple[np.ndarray, int]:
        nonlocal calls
        calls += 1
        return refine(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(exact._Neighbours, "refine", counted)
    # A path of 5 nodes: ends, their neighbours, the middle; stable after 2 rounds.
    source, target = np.array([0, 1, 1, 2, 2, 3, 3, 4]), np.array([1, 0, 2, 1, 3, 2, 4, 3])
    colours = wl_colours(np.zeros(5, dtype=np.int64), source, target, 9)
    assert len(colours) == 10
    assert [c.max() + 1 for c in colours] == [1, 2] + [3] * 8
    assert all(c is colours[2] for c in colours[3:])
    assert calls == 3


def test_molecules() -> None:
    flat = flat_graphs(load_molecules("chembl2321810", cache=False)[:150])
    nodes, edges = node_labels(flat), edge_labels(flat)
    with_types = assert_exact(nodes, flat.source, flat.target, 3, edges)
    without = assert_exact(nodes, flat.source, flat.target, 3)
    assert with_types[1].max() > without[1].max() > nodes.max()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_iterations": -1}, "num_iterations must be an integer of at least 0, got -1"),
        ({"label": np.zeros((3, 2), dtype=np.int64)}, r"label must be \[N\], got shape \[3, 2\]"),
        ({"label": np.zeros(3)}, "label must hold integers, got float64"),
        ({"source": np.array([0, 3])}, "source has nodes 0 … 3, expected 0 … 2"),
        ({"target": np.array([-1, 0])}, "target has nodes -1 … 0, expected 0 … 2"),
        ({"target": np.array([1])}, r"target has shape \[1\], source \[2\]"),
        ({"edge_label": np.zeros(3, dtype=np.int64)}, r"edge_label has shape \[3\], source \[2\]"),
    ],
)
def test_bad_inputs_are_named(change: dict[str, object], message: str) -> None:
    good = {
        "label": np.zeros(3, dtype=np.int64),
        "source": np.array([0, 1]),
        "target": np.array([1, 0]),
        "num_iterations": 1,
    }
    with pytest.raises(ValueError, match=message):
        wl_colours(**(good | change))  # type: ignore[arg-type]


def test_nothing_has_no_colours() -> None:
    for colours in wl_colours(NONE, NONE, NONE, 2):
        assert colours.shape == (0,)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.int32])
def test_columns_of_small_types_do_not_overflow(dtype: type) -> None:
    columns = [np.arange(6).repeat(20) * 20, np.tile(np.arange(20), 6) * 5]
    columns = [column % 100 for column in columns]
    expected = packed_columns(columns, [101, 101])
    assert np.array_equal(packed_columns([c.astype(dtype) for c in columns], [101, 101]), expected)
