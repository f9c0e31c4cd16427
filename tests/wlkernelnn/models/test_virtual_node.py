from __future__ import annotations

import torch

from wlkernelnn.models.virtual_node import VirtualNode


def test_written_out() -> None:
    torch.manual_seed(0)
    node = VirtualNode(4).double()
    h, g = torch.randn(5, 4).double(), torch.randn(3, 4).double()
    # The second graph has no nodes.
    ptr, batch = torch.tensor([0, 2, 2, 5]), torch.tensor([0, 0, 2, 2, 2])
    new_h, new_g = node(h, g, ptr, batch)
    for graph in range(3):
        nodes = batch == graph
        heard = node.norm(g[graph] + h[nodes].sum(0))
        expected = g[graph] + (node.lin.weight @ heard + node.lin.bias).relu()
        torch.testing.assert_close(new_g[graph], expected)
        torch.testing.assert_close(new_h[nodes], h[nodes] + expected)


def test_reset() -> None:
    node = VirtualNode(4)
    before = node.lin.weight.clone()
    with torch.no_grad():
        node.norm.weight.zero_()
    node.reset_parameters()
    assert node.norm.weight.eq(1).all()
    assert not torch.equal(node.lin.weight, before)
