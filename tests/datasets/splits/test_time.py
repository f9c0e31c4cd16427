from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.datasets import load_molecules, time_split


@pytest.mark.parametrize(
    "times",
    [
        *([2015, 2013, 2014], ["2015", "2013", "2013.5"], ["20150131", "20141231", 20150101]),
        ["2015-03-01", "2013-12-31", " 2014-01-01 "],
        ["2015-03-01T00:30:00+02:00", "2015-02-28 21:00", "2015-02-28T22:00:00Z"],
        [datetime.date(2015, 1, 2), datetime.date(2014, 1, 2), datetime.date(2015, 1, 1)],
        [pd.Timestamp("2015-01-02"), np.datetime64("2014-01-02"), "2015-01-01"],
    ],
    ids=["numbers", "texts", "digits", "dates", "times", "date", "stamps"],
)
def test_oldest_train_newest_test(times: list[Any]) -> None:
    parts = time_split(times, (1 / 3, 1 / 3, 1 / 3))
    assert [part.tolist() for part in parts.values()] == [[1], [2], [0]]


def test_rows_of_one_time_stay_in_one_part(caplog: pytest.LogCaptureFixture) -> None:
    years = np.repeat(np.arange(2000, 2020), 5)
    order = np.random.default_rng(0).permutation(100)
    parts = time_split(years[order].tolist())
    assert [len(part) for part in parts.values()] == [80, 10, 10]
    train, valid, test = (years[order][part] for part in parts.values())
    assert train.max() < valid.min() <= valid.max() < test.min()
    assert not caplog.messages
    parts = time_split([*[2001] * 50, *[2002] * 45, *[2003] * 5], (0.5, 0.4, 0.1))
    assert [len(part) for part in parts.values()] == [50, 45, 5]
    time_split([*[2001] * 60, *[2002] * 30, *[2003] * 10])
    (message,) = caplog.messages
    assert message.startswith("time split: 60 / 30 / 10 molecules in train / valid / test, 80 / 10 / 10 were")
    assert message.endswith("there are 3 different times, and rows of one time are not split")
    assert [len(part) for part in time_split([1, 2] * 45, (0.9, 0.1, 0.0)).values()] == [45, 45, 0]
    with pytest.raises(ValueError, match="empty part: there are 2 different times, and rows of one time are"):
        time_split([2001, 2002] * 45)


@pytest.mark.parametrize(
    ("times", "row", "got"),
    [
        (["2020-01-31", "31.01.2020"], 2, r"'31.01.2020' \(1 such rows\)"),
        ([2015, None, 2014], 2, "None"),
        (["2020", "soon", "2021"], 2, "'soon'"),
        (["2020-01-31", "2020-13-01"], 2, "'2020-13-01'"),
        (["1", "inf"], 2, "'inf'"),
        (["01/02/2020", "02/01/2020"], 1, r"'01/02/2020' \(2 such rows\)"),
        ([True, 2, 3], 1, "True"),
        ([pd.Timestamp("2020-01-01"), pd.NaT, pd.Timestamp("2019-01-01", tz="UTC")], 2, "NaT"),
        ([2020, np.nan, 2019], 2, "nan"),
    ],
)
def test_times_that_cannot_be_read(times: list[Any], row: int, got: str) -> None:
    expected = f"data row {row}: expected a number or a date such as 2020-01-31, got {got}"
    with pytest.raises(ValueError, match=expected):
        time_split(times)


def test_times_of_two_kinds() -> None:
    for times, expected in (
        (
            ["2000-06-01", "2001", "2003"],
            r"data row 1: expected a number, as '2001' of data row 2, got '2000-06-01'",
        ),
        (
            ["soon", "2000-06-01", 2001, "2003-01-01"],
            "data row 3: expected a date, as '2000-06-01' of data row 2, got 2001",
        ),
    ):
        with pytest.raises(ValueError, match=expected):
            time_split(times)


def test_a_column_of_a_table() -> None:
    frame = pd.DataFrame({"smiles": ["C" * n for n in range(1, 11)], "y": range(10)})
    frame["date"] = [f"2020-01-{day:02d}" for day in range(30, 20, -1)]
    frame.loc[3, "smiles"] = "C1CC"
    options: dict[str, Any] = {"target_columns": "y", "on_invalid": "skip", "cache": False}
    data = load_molecules(frame, split="time", time_column="date", split_sizes=(0.4, 0.3, 0.3), **options)
    assert data.split_idx is not None
    rows = [data.row[part].tolist() for part in data.split_idx.values()]
    assert rows == [[6, 7, 8, 9], [4, 5], [0, 1, 2]]
    frame.loc[4, "date"] = "unknown"
    with pytest.raises(ValueError, match="the data frame: column 'date': data row 5: expected a number or a"):
        load_molecules(frame, split="time", time_column="date", **options)
    with pytest.raises(ValueError, match="'time' and time_column go together"):
        load_molecules(frame, split="time", **options)
    with pytest.raises(ValueError, match="no column 'day'"):
        load_molecules(frame, split="time", time_column="day", **options)
