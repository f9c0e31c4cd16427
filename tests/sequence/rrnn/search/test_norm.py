from __future__ import annotations

import torch

from tests.inputs.strings import normal, ptr_of
from wlkernelnn.sequence import RRNN
from wlkernelnn.sequence.rrnn.search.norm import NodeNorm

P = 4


def test_layer_norm_is_torchs() -> None:
    norm, node = NodeNorm("layer", 3, P).double(), normal(5, P)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    theirs = torch.nn.LayerNorm(P).double()
    theirs.load_state_dict({"weight": norm.weight[1], "bias": norm.bias[1]})
    torch.testing.assert_close(norm(node, 1), theirs(node))


def test_batch_norm_is_torchs_with_statistics_of_each_round() -> None:
    norm, theirs = NodeNorm("batch", 2, P), [torch.nn.BatchNorm1d(P) for _ in range(2)]
    for k in (0, 1, 1, 0, 1):
        node = (k + 1) * torch.randn(5, P) + k
        torch.testing.assert_close(norm(node, k), theirs[k](node))
    node = torch.randn(1, P)
    for k in range(2):
        expected = theirs[k].eval()(node)
        torch.testing.assert_close(norm.train()(node, k), expected)
        torch.testing.assert_close(norm.eval()(node, k), expected)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    theirs[1].load_state_dict({**theirs[1].state_dict(), "weight": norm.weight[1], "bias": norm.bias[1]})
    torch.testing.assert_close(norm(node, 1), theirs[1](node))
    norm.reset_parameters()
    torch.testing.assert_close(norm(node, 0), node, rtol=1e-4, atol=1e-4)


def test_ragged_strings_in_training() -> None:
    """The last steps have one string; statistics change between a forward pass and its backward pass."""
    model = RRNN(P, P, 2, norm="batch")
    x, ptr = torch.randn(6, P), ptr_of([4, 2])
    total = model(x, ptr)[0].sum() + model(x, ptr)[0].sum()
    total.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
