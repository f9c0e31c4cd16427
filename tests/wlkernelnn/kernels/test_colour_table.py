"""Colours by what they are made of, beside those that are found together with the known graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.inputs.molecules import regression_set
from wlkernelnn.datasets import load_molecules
from wlkernelnn.kernels.colour_table import ColourTable
from wlkernelnn.kernels.flat_graphs import flat_graphs
from wlkernelnn.kernels.graphs.wl_subtree import WLVectorizer, column_counts

DATA = regression_set()
KNOWN, NEW = DATA[:40], DATA[40:]


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_new_graphs_have_the_colours_that_the_vectorizer_finds(depth: int) -> None:
    known, new = flat_graphs(KNOWN), flat_graphs(NEW)
    table, columns = ColourTable.of(known, depth)
    for one, other in zip(columns, table.columns(known), strict=True):
        np.testing.assert_array_equal(one, other)
    vectorizer = WLVectorizer(depth).fit(KNOWN)
    assert sum(table.sizes) == vectorizer.num_columns_
    ours = [column_counts(side, table.columns(side), sum(table.sizes)) for side in (known, new)]
    theirs = [vectorizer.transform(side) for side in (KNOWN, NEW)]
    # Columns stand in another order: which graphs share what is the same.
    np.testing.assert_array_equal((ours[1] @ ours[0].T).toarray(), (theirs[1] @ theirs[0].T).toarray())
    assert ours[1].sum() == theirs[1].sum()
    if depth == 3:
        assert 0 < ours[1].sum() < 4 * len(new.target)  # some are known, and some are not


def test_graphs_of_unknown_atoms() -> None:
    table, _ = ColourTable.of(flat_graphs(load_molecules(["CCO"], cache=False)), 2)
    columns = table.columns(flat_graphs(load_molecules(["[Na+].[Cl-]", "CCO"], cache=False)))
    assert [column[:2].tolist() for column in columns] == [[-1, -1]] * 3
    assert all((column[2:] >= 0).all() for column in columns)


def test_tensors_are_the_table() -> None:
    table, columns = ColourTable.of(flat_graphs(KNOWN), 2)
    again = ColourTable.from_tensors(table.tensors(), 2)
    for one, other in zip(again.columns(flat_graphs(KNOWN)), columns, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "change", [{"own.1": torch.tensor([99])}, {"source.2": torch.tensor([-1])}, {"target.1": torch.arange(9)}]
)
def test_tables_that_contradict_themselves_are_refused(change: dict[str, Any]) -> None:
    table, _ = ColourTable.of(flat_graphs(KNOWN), 2)
    with pytest.raises(ValueError, match="made of others that are not there"):
        ColourTable.from_tensors(table.tensors() | change, 2)
