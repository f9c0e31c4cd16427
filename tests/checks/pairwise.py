"""Fewer cases of tests with several arguments: every pair of values occurs, not every combination."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import combinations, product
from typing import Any

import pytest


def pairwise(**choices: Collection[Any]) -> pytest.MarkDecorator:
    """``parametrize`` with so few rows that every two values of two arguments meet in one.

    Args:
        choices: Values of each argument, or a mapping from names of cases to them.
    """
    named = [
        list(each.items()) if isinstance(each, Mapping) else [(name_of(value), value) for value in each]
        for each in choices.values()
    ]
    grid = [*product(*(range(len(each)) for each in named))]
    pairs = [*combinations(range(len(named)), 2)]
    left = {(i, j, row[i], row[j]) for row in grid for i, j in pairs}
    rows = []
    while left:
        row = max(grid, key=lambda row: sum((i, j, row[i], row[j]) in left for i, j in pairs))
        left -= {(i, j, row[i], row[j]) for i, j in pairs}
        cells = [each[place] for each, place in zip(named, row, strict=True)]
        rows.append(pytest.param(*(value for _, value in cells), id="-".join(name for name, _ in cells)))
    return pytest.mark.parametrize(tuple(choices), rows)


def name_of(value: Any) -> str:
    """The same in every process: a function's text has its address."""
    return getattr(value, "__name__", str(value))
