from __future__ import annotations

import numpy as np
import pytest

from wlkernelnn.kernels.names import Names

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("kind", ["digits", "negative", "large", "floats", "labels"])
def test_equal_rows_have_equal_numbers(kind: str) -> None:
    columns = list(RANDOM.integers(0, 4, size=(3, 200)))
    if kind == "negative":
        columns[1] = columns[1] - 2
    elif kind == "large":
        columns = [column * 2**40 + column for column in columns] + [column * 2**30 for column in columns]
    elif kind == "floats":
        columns[1] = columns[1] / 3
    elif kind == "labels":
        columns[1] = np.array(["a", "b", ("c",), 7], dtype=object)[columns[1]]
    learned, later = [column[:100] for column in columns], [column[50:] for column in columns]
    names = Names()
    number = names.rows("rows", learned, 100)
    rows = list(zip(*(column.tolist() for column in learned), strict=True))
    seen: dict[tuple, int] = {}
    assert number.tolist() == [seen.setdefault(row, len(seen)) for row in rows]
    assert names.sizes == {"rows": len(seen)}
    names.complete = True
    read = names.rows("rows", later, 150)
    rows = list(zip(*(column.tolist() for column in later), strict=True))
    assert read.tolist() == [seen.get(row, -1) for row in rows]
    assert (read < 0).any()


def test_without_rows_columns_and_kinds() -> None:
    names = Names()
    assert names.rows("no columns", [], 3).tolist() == [0, 0, 0]
    assert names.rows("no rows", [np.zeros(0, np.int64)], 0).tolist() == []
    names.complete = True
    assert names.rows("no columns", [], 2).tolist() == [0, 0]
    assert names.rows("no rows", [np.array([0])], 1).tolist() == [-1]
    assert names.rows("never seen", [np.array([0])], 1).tolist() == [-1]
