"""Predictions for a whole data set."""

from __future__ import annotations

import numpy as np
import torch

from wlkernelnn.datasets import PackedGraphs, PackedLoader
from wlkernelnn.models import ColourCache, GraphNetwork
from wlkernelnn.modes import evaluating

from .allocator import freed_memory_kept

# Graphs at once: what a batch needs still fits into a processor's caches, more or less.
BATCH = 8192


@torch.no_grad()
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
    device = net.target_mean.device
    if cache is None and len(data) > batch_size:
        cache = ColourCache()
    loader = PackedLoader(data, batch_size, quotient=net.quotient_depth)
    with evaluating(net), freed_memory_kept():
        parts = [net.predict(batch.to(device), cache).cpu().numpy() for batch in loader]
    return np.concatenate(parts) if parts else np.zeros((0, net.config["num_tasks"]), np.float32)
