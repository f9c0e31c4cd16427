"""Batch norm that counts rows is that of the rows repeated."""

from __future__ import annotations

import pytest
import torch
import torch_geometric.nn as pyg

from tests.wlkernelnn.colours.batches import Network
from wlkernelnn.colours import to_colours
from wlkernelnn.colours.norms import CountedRows, has_batch_statistics

COUNT = torch.tensor([1, 3, 2, 5])


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_equals_rows_repeated(affine: bool, tracked: bool) -> None:
    ours, theirs = (
        torch.nn.BatchNorm1d(4, affine=affine, track_running_stats=tracked).double() for _ in range(2)
    )
    x = torch.randn(4, 4, dtype=torch.double, requires_grad=True)
    for _ in range(2):  # running statistics move twice
        with CountedRows({4: COUNT}):
            found = ours(x).repeat_interleave(COUNT, 0)
        expected = theirs(x.repeat_interleave(COUNT, 0))
        torch.testing.assert_close(found, expected)
        for one, other in zip(
            torch.autograd.grad(found.sin().sum(), [x, *ours.parameters()]),
            torch.autograd.grad(expected.sin().sum(), [x, *theirs.parameters()]),
            strict=True,
        ):
            torch.testing.assert_close(one, other)
    torch.testing.assert_close(list(ours.buffers()), list(theirs.buffers()))
    ours.eval()
    theirs.eval()
    with CountedRows({4: COUNT}):
        found = ours(x).repeat_interleave(COUNT, 0)
    torch.testing.assert_close(found, theirs(x.repeat_interleave(COUNT, 0)))


def test_refuses_what_it_cannot_count() -> None:
    norm = torch.nn.BatchNorm1d(4)
    with CountedRows({4: COUNT}), pytest.raises(ValueError, match=r"shape \[3, 4\].*each of \[4\] colours"):
        norm(torch.ones(3, 4))
    with CountedRows({1: COUNT[:1]}), pytest.raises(ValueError, match="more than 1 value per channel"):
        norm(torch.ones(1, 4))  # a single node


def test_statistics_of_the_batch() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    assert has_batch_statistics(net)
    assert not has_batch_statistics(net.eval())
    assert has_batch_statistics(torch.nn.BatchNorm1d(2, track_running_stats=False).eval())
    assert not has_batch_statistics(torch.nn.LayerNorm(2))


def test_synchronized_norms_are_refused_wherever_they_are() -> None:
    """Their statistics are those of rows, which torch takes without asking how often a colour is there."""
    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
        Network(lambda d: pyg.GCNConv(d, 8), lambda: pyg.BatchNorm(8))
    )
    with pytest.raises(ValueError, match="BatchNorm"):
        to_colours(net)
