"""Predictions and embeddings for a whole data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from wlkernelnn.conv.kernel_conv import is_watched
from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.datasets.graphs.loader import Graphs, store_quotient
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.training.allocator import freed_memory_kept
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.checks import check_count, check_predictions
from wlkernelnn.utils.modes import evaluating

# Numbers in the vectors of all nodes of the graphs that go by their colours at once. Of molecules, a third of
# the nodes have a colour of their own: in float32 their states take about 0.3 GB.
VALUES = 2**28


def predict(
    net: GraphNetwork, data: Graphs, batch_size: int = BATCH, cache: ColourCache | None = None
) -> np.ndarray:
    """Values in the unit of the targets (of a distribution its mean or median), or probabilities of class 1.

    Args:
        net: A trained network; it is used in evaluation mode, on the device where it is.
        data: Graphs, in this order: packed, or as PyG has them. Where Weisfeiler-Lehman colours decide the
            states of the network, those of the whole store are found once, and each is computed once. (Large
            stores go in pieces: of the default network, a piece has 1.5 million atoms.)
        batch_size: Graphs at once, if the network goes by nodes or has a cache.
        cache: What the network computed before, and is to remember: for many small stores.

    Returns:
        float32 ``[len(data), num_tasks]``, or float64 if the network's scale is.

    Raises:
        ValueError: ``batch_size`` < 1, or the network needs features that the graphs do not have.
        NotFiniteError: A value is not finite.
    """
    return _of_vectors(net, net.predict_vectors, (net.config["num_tasks"],), data, batch_size, cache)


def describe(
    net: GraphNetwork, data: Graphs, batch_size: int = BATCH, cache: ColourCache | None = None
) -> np.ndarray:
    """All that a network predicts of each target, see :meth:`GraphNetwork.described`.

    Arguments are those of :func:`predict`; float32 or float64 ``[len(data), num_tasks, K]``.
    """
    return _of_vectors(
        net, net.described, (net.config["num_tasks"], net.target.width), data, batch_size, cache
    )


def embed(
    net: GraphNetwork, data: Graphs, batch_size: int = BATCH, cache: ColourCache | None = None
) -> np.ndarray:
    """The vectors that the head of a network sees, see :meth:`GraphNetwork.embed`.

    Arguments are those of :func:`predict`; float32 ``[len(data), net.embedding_channels]``.
    """
    return _of_vectors(net, lambda vectors: vectors, (net.embedding_channels,), data, batch_size, cache)


@torch.no_grad()
def _of_vectors(
    net: GraphNetwork,
    read: Callable[[Tensor], Tensor],
    shape: tuple[int, ...],
    data: Graphs,
    batch_size: int,
    cache: ColourCache | None,
) -> np.ndarray:
    data = net.packed("data", data)
    check_count("batch_size", batch_size)
    depth = net.depth_for(data)
    if cache is None and depth is not None and not is_watched(net):
        vectors = _of_colours(net, data, depth)
    else:
        vectors = _of_batches(net, data, batch_size, cache, depth)
    with evaluating(net), freed_memory_kept():
        parts = [read(part).cpu().numpy() for part in vectors]
    values = np.concatenate(parts) if parts else np.zeros((0, *shape), np.float32)
    check_predictions(values)
    return values


def _of_colours(net: GraphNetwork, data: PackedGraphs, depth: int) -> Iterator[Tensor]:
    num_nodes = data.num_nodes_per_graph
    where = (num_nodes.cumsum() - num_nodes) * net.embedding_channels // VALUES
    for graphs in np.split(np.arange(len(data)), np.flatnonzero(np.diff(where)) + 1):
        if graphs.size:
            batch = store_quotient(data[graphs], depth)
            yield net.embed_colours(batch.to(net.target_mean.device))


def _of_batches(
    net: GraphNetwork, data: PackedGraphs, batch_size: int, cache: ColourCache | None, depth: int | None
) -> Iterator[Tensor]:
    device = net.target_mean.device
    for batch in PackedLoader(data, batch_size, quotient=depth, num_replicas=1):
        yield net.embed(batch if device.type == "cpu" else batch.to(device), cache)
