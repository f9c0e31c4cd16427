from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wlkernelnn.bench.speed import growth
from wlkernelnn.bench.speed.tables import Options


def test_rows_name_the_molecules_that_there_were(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def peak(axis: str, value: int, setting: Any) -> int:
        measured.append(value)
        return 1

    monkeypatch.setattr(growth, "AXES", {"molecules": (20, 40, 80, 160)})
    monkeypatch.setattr(growth, "sample", lambda dataset, molecules: range(molecules))
    monkeypatch.setattr(growth, "_by_size", lambda data, value: [("colours", None, len(data[:value]))])
    monkeypatch.setattr(growth, "_peak", peak)
    monkeypatch.setattr(growth, "race", lambda calls, molecules, **_: np.array(molecules)[:, None])
    options = Options(datasets=["chembl2321810"], threads=[1], molecules=50)
    ((_, records),) = growth.measure_growth(options)
    assert [(record["value"], record["rates"]) for record in records] == [(20, [20]), (40, [40]), (50, [50])]
    assert measured == [20, 40, 50]
