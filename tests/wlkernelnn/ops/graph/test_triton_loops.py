"""How edges are cut up for Triton's kernels; what these compute is tested with the sums."""

from __future__ import annotations

import pytest
import torch

from tests.graphs import random_edges
from tests.ways import IN_TRITON
from wlkernelnn.ops.graph import fused, gated_sum, gated_sum_naive, sort_edges

pytest.importorskip("triton")

TYPES = {
    "several": [2, 0, 2, 2, 5, 0, 2, 2, 2, 5],
    "one": [3] * 10,
    "cut_at_a_slice": [0, 0, 0, 1, 1, 1, 4, 4, 4, 4],
    "none": [],
}


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_slices_of_types(types: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice has edges of one type, at most three; a type's slices have all of its edges."""
    loops = fused.triton_loops()
    monkeypatch.setattr(loops, "SLICE", 3)
    num_edges, num_types = len(types), 6
    edges = sort_edges(torch.stack([torch.arange(num_edges), torch.zeros(num_edges).long()]), num_edges, 1)
    weight = torch.arange(float(num_edges))
    order, slices = loops.MappedLoop(edges, torch.tensor(types, dtype=torch.int64), weight, "ADD").by_type(
        num_types
    )
    assert order.indptr.diff().max() <= 3
    assert torch.equal(order.source, order.weight.long())
    assert order.edge_type.tolist() == sorted(types)
    for t in range(num_types):
        spans = order.indptr[slices[t] : slices[t + 1] + 1]
        of_type = [] if len(spans) < 2 else order.source[spans[0] : spans[-1]].tolist()
        assert of_type == [e for e in range(num_edges) if types[e] == t]


@IN_TRITON
@pytest.mark.parametrize("channels", [1, 16, 70])
def test_several_slices_and_blocks_of_channels(
    channels: int, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused.triton_loops(), "SLICE", 3)
    edges, num_types = random_edges(4, 5, 17), 3
    shapes = [(4, channels), (5, channels), (num_types, channels), (4, channels), (num_types, channels)]
    edge_type = torch.randint(num_types, (17,), dtype=torch.int32)
    edge_index = edges.edge_index.int()
    sorted_edges = sort_edges(edge_index.to(device), 4, 5)
    results = []
    for fast in (True, False):
        torch.manual_seed(1)
        a, b, G, c, F = leaves = [
            torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
        ]
        if fast:
            a, b, G, c, F = (leaf.to(device) for leaf in leaves)
            types = sorted_edges.arrange(edge_type.to(device))
            out = gated_sum(c, sorted_edges, (a, b), G, F, types, gate_scale=0.1).cpu()
        else:
            out = gated_sum_naive(c, edge_index, 5, (a, b), G, F, edge_type, gate_scale=0.1)
        results.append((out.detach(), *torch.autograd.grad(out.square().sum(), leaves)))
    for came, expected in zip(*results, strict=True):
        torch.testing.assert_close(came, expected, rtol=1e-12, atol=1e-13)
