"""Copies of a network of to_colours: they have what was set on it, and weights of their own."""

from __future__ import annotations

import copy
import pickle

import torch
import torch_geometric.nn as pyg
from torch import Tensor

from tests.wlkernelnn.colours.test_network import BATCH
from wlkernelnn.colours import to_colours


def test_copies_keep_hooks_and_attributes() -> None:
    fast = to_colours(pyg.GIN(3, 8, 2))
    fast.version = 3
    fast.register_forward_hook(double)
    x = BATCH.x.float()
    expected = fast(x, BATCH.edge_index)
    assert not torch.equal(expected, fast.net(x, BATCH.edge_index))
    fast.compile(backend="eager")  # copies are not compiled
    averaged = torch.optim.swa_utils.AveragedModel(fast).module
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast)), averaged):
        assert other.version == 3
        torch.testing.assert_close(other(x, BATCH.edge_index), expected)
        with torch.no_grad():
            for value in other.parameters():
                value.zero_()
        assert not other(x, BATCH.edge_index).any()
        assert other.net.convs[0] is other.convs[0] is not fast.convs[0]


def double(module: torch.nn.Module, given: object, out: Tensor) -> Tensor:
    return 2 * out
