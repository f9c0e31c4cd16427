from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from wlkernelnn.datasets.files.targets import class_targets, numeric_targets, without_bounds

NAN = float("nan")


@pytest.mark.parametrize(
    ("cells", "names", "codes"),
    [
        (["b", " a", "", "b", "a"], ("a", "b"), [1, 0, NAN, 1, 0]),
        (["10", "9", "9.0", "10", "na"], ("9", "10"), [1, 0, 0, 1, NAN]),
        ([2.0, 4.0, NAN, 2.0], ("2", "4"), [0, 1, NAN, 0]),
        (["1A", "2", "2", "1A"], ("1A", "2"), [0, 1, 1, 0]),
        ([True, False, None], ("False", "True"), [1, 0, NAN]),
    ],
    ids=["texts", "numbers", "floats", "mixed", "booleans"],
)
def test_classes_by_name(cells: list[object], names: tuple[str, ...], codes: list[float]) -> None:
    values, classes = class_targets(pd.DataFrame({"c": cells}), "c", "set.csv")
    assert classes == names
    np.testing.assert_array_equal(values, np.array(codes)[:, None])


@pytest.mark.parametrize(
    ("cells", "classes", "codes"),
    [
        (["2.0", "0.5", "1.0", ""], ("0.5", "1.0", "2.0"), [2, 0, 1, NAN]),
        ([2.0, 0.5, NAN], ("0.50", "2"), [1, 0, NAN]),
        (["01", "1", "1."], ("01", "1"), [0, 1, 1]),
        (["9007199254740993", "1e1"], ("9007199254740992", "9007199254740993", "10"), [1, 2]),
        (["1", "2", "high"], ("1.0", "2.0", "high"), [0, 1, 2]),
        ([0.30000000000000004, 0.10000000149011612], ("0.1", "0.3"), [1, 0]),
        (["a.", "sNaN"], ("a.", "sNaN"), [0, 1]),
    ],
    ids=str,
)
def test_numbers_as_known_classes(cells: list[object], classes: tuple[str, ...], codes: list[float]) -> None:
    values, found = class_targets(pd.DataFrame({"c": cells}), "c", "set.csv", classes)
    assert found == classes
    np.testing.assert_array_equal(values, np.array(codes)[:, None])


@pytest.mark.parametrize(
    ("cells", "classes", "message"),
    [
        (["7.0", "5.0"], ("1", "7"), "data row 2: '5.0' is none of the classes 1, 7"),
        (["1", "2", "x"], ("1.0", "2.0"), "data row 3: 'x' is none of the classes 1.0, 2.0"),
        (["9007199254740993"], ("9007199254740992", "1"), "'9007199254740993' is none of"),
        (["a."], ("a", "b"), "'a.' is none of the classes a, b"),
        (["a", "b", "c"], ("b", "a"), r"set\.csv: column 'c': data row 3: 'c' is none of the classes b, a"),
        (["7", "1.5"], ("1", "7"), "data row 2: '1.5' is none of the classes 1, 7"),
        (["1", "1.5", "1"], None, r"expected classes, names or whole numbers, got 1\.5: a regression\?"),
        (["a", "a"], None, "expected classes, at least two, got 1 in 2 rows"),
        (["a", "b", "c", "d", "d"], None, "at most one for every two rows, got 4 in 5 rows"),
    ],
)
def test_refused_classes(cells: list[str], classes: tuple[str, ...] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        class_targets(pd.DataFrame({"c": cells}), "c", "set.csv", classes)


def test_names_in_a_column_of_numbers() -> None:
    with pytest.raises(ValueError, match=r"got 'low' \(and 1 more .*\(task classification takes names of cl"):
        numeric_targets(pd.DataFrame({"c": ["low", "high"]}), ["c"], "set.csv")


def test_bounds() -> None:
    cells = [">10", " <= 0.1", "3", "", "≥ 2e3", "=<-1", "~5", "> nothing", "<.5"]
    frame = pd.DataFrame({"y": cells, "z": np.arange(9.0)})
    numbers, sides = without_bounds(frame, ["y", "z"])
    assert sides.tolist() == [[side, 0] for side in (1, -1, 0, 0, 1, -1, 0, 0, -1)]
    assert numbers["y"].tolist() == ["10", "0.1", "3", "", "2e3", "-1", "~5", "> nothing", ".5"]
    assert frame["y"].tolist() == cells
    of_kinds, again = without_bounds(frame.astype({"y": "category"}), ["y", "z"])
    assert (of_kinds["y"].tolist(), again.tolist()) == (numbers["y"].tolist(), sides.tolist())


def test_classes_called_as_missing_values_are(caplog: pytest.LogCaptureFixture) -> None:
    frame = pd.DataFrame({"c": ["none", "mild", "severe", "None", ""] * 2})
    values, classes = class_targets(frame, "c", "set.csv", ["none", "mild", "severe"])
    assert values[:5, 0].tolist()[:3] == [0, 1, 2]
    assert np.isnan(values[3:5]).all()
    caplog.clear()
    _, classes = class_targets(frame, "c", "set.csv")
    assert classes == ("mild", "severe")
    assert "column 'c': 4 cells such as 'none' are read as missing values" in caplog.text


def test_class_names_that_are_equal_numbers_stay_apart() -> None:
    values, classes = class_targets(pd.DataFrame({"c": ["01", "1", "01", "2"] * 2}), "c", "set.csv")
    assert classes == ("01", "1", "2")
    assert values[:4, 0].tolist() == [0, 1, 0, 2]
    again, _ = class_targets(pd.DataFrame({"c": ["1", "01", "2.0"]}), "c", "set.csv", classes)
    assert again[:, 0].tolist() == [1, 0, 2]
    long = ["9007199254740993", "9007199254740992"] * 3
    assert class_targets(pd.DataFrame({"c": long}), "c", "set.csv")[1] == tuple(sorted({*long}))


def test_a_hint_of_classes_where_no_cell_is_a_number() -> None:
    with pytest.raises(ValueError, match=r"got inf$"):
        numeric_targets(pd.DataFrame({"y": [np.inf]}), ["y"], "set.csv")
