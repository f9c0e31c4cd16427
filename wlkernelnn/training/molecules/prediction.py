"""Predictions and embeddings for a whole data set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.training.allocator import freed_memory_kept
from wlkernelnn.training.options import BATCH
from wlkernelnn.utils.modes import evaluating


def predict(
    net: GraphNetwork, data: PackedGraphs, batch_size: int = BATCH, cache: ColourCache | None = None
) -> np.ndarray:
    """Values in the unit of the targets, or probabilities of class 1.

    Args:
        net: A trained network; it is used in evaluation mode, on the device where it is.
        data: Graphs, in this order.
        batch_size: Graphs at once. Each Weisfeiler-Lehman colour of a batch is computed once: the more
            graphs, the less there is to do for each.
        cache: What the network computed before, and is to remember; by default of this call alone.

    Returns:
        float32 ``[len(data), num_tasks]``.
    """
    return _of_batches(net, net.predict, net.config["num_tasks"], data, batch_size, cache)


def embed(
    net: GraphNetwork, data: PackedGraphs, batch_size: int = BATCH, cache: ColourCache | None = None
) -> np.ndarray:
    """The vectors that the head of a network sees, see :meth:`GraphNetwork.embed`.

    Arguments are those of :func:`predict`; float32 ``[len(data), net.embedding_channels]``.
    """
    return _of_batches(net, net.embed, net.embedding_channels, data, batch_size, cache)


@torch.no_grad()
def _of_batches(
    net: GraphNetwork,
    compute: Callable[[Data, ColourCache | None], Tensor],
    width: int,
    data: PackedGraphs,
    batch_size: int,
    cache: ColourCache | None,
) -> np.ndarray:
    device = net.target_mean.device
    if cache is None and len(data) > batch_size:
        cache = ColourCache()
    loader = PackedLoader(data, batch_size, quotient=net.quotient_depth)
    with evaluating(net), freed_memory_kept():
        batches = loader if device.type == "cpu" else (batch.to(device) for batch in loader)
        parts = [compute(batch, cache).cpu().numpy() for batch in batches]
    return np.concatenate(parts) if parts else np.zeros((0, width), np.float32)
