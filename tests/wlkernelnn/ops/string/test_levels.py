"""Directed acyclic graphs beside the recursion over their nodes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.inputs.strings import LENGTHS, assert_same_with_gradients, normal, ptr_of
from wlkernelnn.datasets.graphs.pyg import path_edges
from wlkernelnn.ops.string import (
    GatedCell,
    Levels,
    Steps,
    feedback_scan,
    gated_scan,
    ngram_graph_naive,
    ngram_scan,
)
from wlkernelnn.ops.string.levels import levels_of

D = 3
ANY = settings(max_examples=25, deadline=None, derandomize=True)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[int]]:
    """Edges of acyclic graphs whose nodes are numbered in any order, and the graph of each node."""
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=3))
    edges: list[tuple[int, int]] = []
    for i in range(len(sizes)):
        nodes = draw(st.permutations(range(sum(sizes[:i]), sum(sizes[: i + 1]))))
        pairs = list(combinations(nodes, 2))
        edges += draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return edges, [i for i, size in enumerate(sizes) for _ in range(size)]


def levels(edges: Sequence[tuple[int, int]], graph: Sequence[int], weight: Tensor | None = None) -> Levels:
    numbers = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    return Levels(numbers, np.array(graph, dtype=np.int64), max(graph, default=0) + 1, weight)


@pytest.mark.parametrize("compose", ["mul", "add"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_scan_beside_the_equation(compose: str, normalize: bool, gated: bool) -> None:
    @ANY
    @given(graphs(), st.booleans())
    def check(drawn: tuple[list[tuple[int, int]], list[int]], weighted: bool) -> None:
        edges, graph = drawn
        n = len(graph)
        inputs = {f"u{j}": normal(n, D) for j in range(3)}
        inputs["decay"] = torch.rand(*([n] if gated else []), D, dtype=torch.float64)
        if weighted:
            inputs["weight"] = normal(len(edges))

        def fast(decay: Tensor, weight: Tensor | None = None, **u: Tensor) -> list[Tensor]:
            steps = levels(edges, graph, weight)
            entered = [steps.enter(value) for value in u.values()]
            of_tokens = steps.enter(decay) if gated else decay
            c = ngram_scan(entered, of_tokens, steps, None, compose, normalize)
            return [steps.leave(level[steps.num_strings :]) for level in c]

        def naive(decay: Tensor, weight: Tensor | None = None, **u: Tensor) -> list[Tensor]:
            return ngram_graph_naive([*u.values()], decay, edges, weight, compose, normalize)

        if n:
            assert_same_with_gradients(fast, naive, inputs, 1e-12)

    check()


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
def test_strings_are_the_special_case(lengths: list[int]) -> None:
    """Of every scan, with states in and out."""
    n, ptr = sum(lengths), ptr_of(lengths)
    graph = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths, dtype=torch.long))
    by_level = Levels(path_edges(ptr).as_tensor().numpy(), graph.numpy(), len(lengths))
    cell = GatedCell("gate", "gate", output=True)
    inputs = {name: normal(n, D) for name in ("u1", "u2", "logits")}
    inputs |= {"gates": normal(n, 4 * D), "weight": normal(D, D), "weights": normal(4 * D, D)}
    inputs |= {"state": normal(3, len(lengths), D)}

    def scans(steps: Steps) -> list[Tensor]:
        def run(**given: Tensor) -> list[Tensor]:
            u1, u2, logits, gates = (steps.enter(given[name]) for name in ("u1", "u2", "logits", "gates"))
            state = steps.sort(given["state"])
            found = (
                *ngram_scan([u1, u2], torch.sigmoid(logits), steps, state[:2]),
                *feedback_scan([u1, u2], logits, given["weight"], steps, state),
                *gated_scan(cell, gates, None, None, given["weights"], steps, (state[0], state[1])),
            )
            return [
                part
                for value in found
                for part in (steps.leave(value[steps.num_strings :]), steps.unsort(steps.last(value)))
            ]

        return run

    assert_same_with_gradients(scans(by_level), scans(Steps(ptr)), inputs, 1e-12)


def test_states_enter_at_sources_and_leave_at_sinks() -> None:
    # 0 → 2 ← 1, 2 → 3, 2 → 4; the second graph is empty.
    steps = Levels(np.array([[0, 1, 2, 2], [2, 2, 3, 4]]), np.zeros(5, dtype=np.int64), 2)
    assert steps.counts == [2, 1, 2]
    u, state = torch.ones(5, 1), torch.tensor([[[10.0], [7.0]]])
    (c,) = ngram_scan([u], 0.5, steps, state, normalize=False)
    assert steps.leave(c[2:]).view(-1).tolist() == [6, 6, 7, 4.5, 4.5]
    assert steps.last(c).view(-1).tolist() == [9, 7]


@ANY
@given(graphs())
def test_levels_are_longest_paths(drawn: tuple[list[tuple[int, int]], list[int]]) -> None:
    edges, graph = drawn
    found = levels_of(np.array(edges, dtype=np.int64).reshape(-1, 2).T, len(graph))
    for v in range(len(graph)):
        assert found[v] == max((found[u] + 1 for u, target in edges if target == v), default=0)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 0)], "nodes 0 → 0 are a cycle"),
        ([(0, 1), (1, 2), (2, 1), (2, 3)], r"nodes (1 → 2 → 1|2 → 1 → 2) are a cycle"),
    ],
)
def test_cycles_are_named(edges: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        levels(edges, [0] * 4)
