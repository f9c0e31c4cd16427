"""Batches as networks need them: complete, and by their colours."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from wlkernelnn.conv.graph import graph_of_nodes
from wlkernelnn.ops.colours import Quotient, wl_colours, wl_quotient

#: What to do where a batch is not as a store gives it.
HINT = 'batches of graphs of PyG come from PackedLoader(net.packed("graphs", graphs))'


def complete(batch: Data, num_edge_types: int | None, num_graph_values: int) -> Data:
    """A batch with ``batch`` and ``ptr``; a single graph becomes a batch of one.

    Args:
        batch: See :class:`GraphNetwork`.
        num_edge_types: Number of edge codes; ``None``: edges need none.
        num_graph_values: Width of graphs' own features; 0: graphs need none.

    Raises:
        ValueError: Something is missing, ``batch``, ``ptr`` or ``graph_x`` does not fit the nodes, or edges
            have weights.
    """
    needed = {"x": "[N, F]", "edge_index": "[2, E]"}
    if num_graph_values:
        needed["graph_x"] = f"[B, {num_graph_values}]"
    if num_edge_types is not None and batch.num_edges:
        needed["edge_type"] = f"[E] (num_edge_types={num_edge_types})"
    _check_there(batch, needed)
    weight = batch.get("edge_weight")
    if weight is not None and not torch.compiler.is_compiling() and (weight != 1).any():
        raise ValueError("networks read no edge_weight, and the batch has some that are not 1")
    if num_edge_types is not None and batch.get("edge_type") is None:
        batch = copy.copy(batch)
        batch.edge_type = batch.edge_index.new_empty(0)
    batch = _with_members(batch)
    check_graph_x(batch, num_graph_values)
    return batch


def check_graph_x(batch: Data, num_graph_values: int) -> None:
    """Refuse a batch with ``ptr`` whose graphs have not as many features of their own."""
    if num_graph_values:
        _check_there(batch, {"graph_x": f"[B, {num_graph_values}]"})
        expected = [batch.ptr.numel() - 1, num_graph_values]
        if list(batch.graph_x.shape) != expected:
            raise ValueError(f"expected graph_x of shape {expected}, got {list(batch.graph_x.shape)}")


def _check_there(batch: Data, needed: dict[str, str]) -> None:
    for name, shape in needed.items():
        if batch.get(name) is None:
            there = ", ".join(sorted(batch.keys())) or "nothing"
            raise ValueError(f"expected {name} {shape} in the batch; got {there}; {HINT}")


def _with_members(batch: Data) -> Data:
    """The batch with ``batch`` and ``ptr``; where the two differ, ``batch`` counts."""
    if "ptr" in batch and _fits(batch):
        if batch.batch is not None:
            return batch
        result = copy.copy(batch)
        result.batch = _owners(batch.ptr)
        return result
    if batch.batch is None:
        if "ptr" in batch:
            expected = f"expected ptr to ascend from 0 to the number of nodes, {batch.x.size(0)}"
            raise ValueError(f"{expected}; got {batch.ptr.tolist()}")
        return Batch.from_data_list([batch])
    if batch.batch.shape != batch.x.shape[:1] or (batch.batch < 0).any():
        raise ValueError(
            f"expected batch.batch to be the graph of each of {batch.x.size(0)} nodes, 0 or more; got shape "
            f"{list(batch.batch.shape)}, from {batch.batch.min() if batch.batch.numel() else 0} on"
        )
    if (batch.batch.diff() < 0).any():
        raise ValueError("batch.batch must not decrease: nodes of a graph stand side by side")
    counts = batch.batch.bincount(minlength=batch.ptr.numel() - 1 if "ptr" in batch else 0)
    result = copy.copy(batch)
    result.ptr = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return result


def _fits(batch: Data) -> bool:
    """Whether ``ptr`` is of these nodes, looked at on the CPU: PyG's ``subgraph`` leaves it as it was."""
    if torch.compiler.is_compiling() or not batch.x.is_cpu:
        return True
    ends = batch.ptr[[0, -1]].tolist() if batch.ptr.numel() else []
    if ends != [0, batch.x.size(0)] or bool((batch.ptr.diff() < 0).any()):
        return False
    return batch.batch is None or torch.equal(batch.batch.long(), _owners(batch.ptr))


def _owners(ptr: Tensor) -> Tensor:
    """The graph of every node."""
    return torch.arange(ptr.numel() - 1, device=ptr.device).repeat_interleave(ptr.diff())


def quotient_of_batch(batch: Data, label: np.ndarray, num_edge_types: int | None, depth: int) -> Quotient:
    """The quotient of a complete batch after ``depth`` iterations.

    ``label`` has an integer for each node, the same for equal rows of ``x``; ``num_edge_types``: edges have
    as many codes.
    """
    num_nodes = batch.x.size(0)
    edge_type = None if num_edge_types is None else batch.edge_type
    graph = graph_of_nodes(
        batch.edge_index, (num_nodes, num_nodes), edge_type=edge_type, num_edge_types=num_edge_types
    )
    edges, (_, _, edge_type) = graph.step(0).by_target()
    if edge_type is None:
        edge_type = torch.zeros_like(edges.source)
    source, target, types = (value.cpu().numpy() for value in (edges.source, edges.target, edge_type))
    quotient = wl_quotient(
        wl_colours(label, source, target, depth, types),
        source,
        edges.indptr.cpu().numpy(),
        types,
        batch.batch.cpu().numpy(),
        batch.ptr.numel() - 1,
    )
    return quotient if batch.x.is_cpu else Data(quotient=quotient).to(batch.x.device).quotient
