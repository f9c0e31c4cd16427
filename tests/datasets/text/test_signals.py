from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wlkernelnn.datasets import Signals, load_signals
from wlkernelnn.datasets.text.signals import channel_scale

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (6, 2, 5))
ARRAYS: dict[str, Any] = {
    "X": X,
    "y": np.array([0, 1, 1, 0, 2, 1], dtype=np.int8),
    "subject": np.array(["b", "b", "a", "c", "a", "a"]),
    "rate": np.array(1000),
}


def write(folder: Path, **changed: Any) -> Path:
    path = folder / "mice.npz"
    np.savez(path, **{name: value for name, value in (ARRAYS | changed).items() if value is not None})
    return path


def test_arrays_come_back(tmp_path: Path) -> None:
    signals = load_signals(write(tmp_path))
    np.testing.assert_array_equal(signals.x, X)
    assert signals.x.dtype == np.float64
    for kind, kept in ((np.float32, np.float32), (np.int16, np.float32), (np.int32, np.float64)):
        assert load_signals(write(tmp_path, X=X.astype(kind))).x.dtype == kept
    assert signals.y.dtype == np.int64
    assert signals.y.tolist() == [0, 1, 1, 0, 2, 1]
    assert signals.classes == ("0", "1", "2")
    assert (signals.name, len(signals)) == ("mice", 6)
    numbered = load_signals(write(tmp_path, subject=np.array([7, 7, 3, 3, 7, 3])))
    assert numbered.subjects == ["7", "3"]


def test_each_subject_is_left_out_once(tmp_path: Path) -> None:
    splits = list(load_signals(write(tmp_path)).leave_one_subject_out())
    assert [(subject, test.tolist()) for subject, _, test in splits] == [
        ("b", [0, 1]),
        ("a", [2, 4, 5]),
        ("c", [3]),
    ]
    for _, train, test in splits:
        assert sorted([*train, *test]) == list(range(6))
    alone = load_signals(write(tmp_path, subject=np.array(["a"] * 6)))
    with pytest.raises(ValueError, match="leaving a subject out needs at least 2 of them, got 1"):
        next(alone.leave_one_subject_out())


def test_trials_are_strings_of_samples(tmp_path: Path) -> None:
    strings = load_signals(write(tmp_path)).strings(np.array([4, 1]))
    assert strings.ptr.tolist() == [0, 5, 10]
    assert strings.y.tolist() == [2, 1]
    assert strings.tokens.dtype == torch.float32
    torch.testing.assert_close(strings[0].x, torch.from_numpy(X[4].T).float())
    torch.testing.assert_close(strings[1].x, torch.from_numpy(X[1].T).float())


def test_channels_are_scaled_by_training_trials_alone(tmp_path: Path) -> None:
    x = X.copy()
    x[:, 1] *= 100
    x[[0, 1]] += 1_000  # subject b, who is left out
    signals = load_signals(write(tmp_path, X=x))
    subject, train, test = next(signals.leave_one_subject_out())
    assert subject == "b"
    seen = signals.strings(train, scaled_by=train).tokens
    torch.testing.assert_close(seen.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(seen.std(0, correction=0), torch.ones(2))
    unseen = signals.strings(test, scaled_by=train).tokens
    mean, deviation = (getattr(x[train], name)((0, 2)) for name in ("mean", "std"))
    expected = (x[test].transpose(0, 2, 1).reshape(-1, 2) - mean) / deviation
    torch.testing.assert_close(unseen, torch.from_numpy(expected).float())


def test_a_small_signal_on_a_large_offset_keeps_its_digits(tmp_path: Path) -> None:
    signals, shifted = (load_signals(write(tmp_path, X=x)) for x in (X, X + 1e9))
    every = np.arange(6)
    given, found = (each.strings(every, scaled_by=every).tokens for each in (signals, shifted))
    torch.testing.assert_close(found, given, atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match=r"mice: signals go up to .*e\+50, beyond float32: give scaled_by"):
        load_signals(write(tmp_path, X=X * 1e50)).strings(every)


def test_constant_channels_are_shifted(tmp_path: Path) -> None:
    x = X.copy()
    x[:, 0] = 4
    strings = load_signals(write(tmp_path, X=x)).strings(np.arange(6), scaled_by=np.arange(6))
    assert not strings.tokens[:, 0].any()
    x[:, 0] = 0.1  # no binary fraction
    x[5, 0] += 1e-3
    strings = load_signals(write(tmp_path, X=x)).strings(np.arange(6), scaled_by=np.arange(5))
    expected = torch.tensor(25 * [0.0] + 5 * [1e-3])
    torch.testing.assert_close(strings.tokens[:, 0], expected, atol=1e-7, rtol=0)


def test_long_constant_channels_are_shifted() -> None:
    mean, deviation = channel_scale(np.full((100_000, 1), 0.1))
    assert (mean.tolist(), deviation.tolist()) == ([0.1], [1])


def test_published_numbers(data_root: Path) -> None:
    signals = load_signals("eeg_alcohol", data_root)
    assert signals.x.shape == (99, 64, 256)
    assert np.bincount(signals.y).tolist() == [50, 49]
    assert len(signals.subjects) == 20
    assert len(list(signals.leave_one_subject_out())) == 20


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": None}, r"no array 'X' \(arrays: y, subject, rate\)"),
        ({"subject": None}, "no array 'subject'"),
        ({"X": X[0]}, r"X must be of shape \[trials, channels, time\], got \[2, 5\]"),
        ({"X": X[:0], "y": ARRAYS["y"][:0]}, r"X must be of shape .*, got \[0, 2, 5\]"),
        ({"X": X.astype(str)}, "X must be an array of numbers, got <U"),
        ({"X": X > 0}, "X must be an array of numbers, got bool"),
        ({"y": ARRAYS["y"][:5]}, r"y must have an entry for each of 6 trials, got shape \[5\]"),
        ({"y": ARRAYS["y"].astype(float)}, "y must be an array of integers, got float64"),
        ({"y": ARRAYS["y"] - 1}, "y must hold all classes 0, 1, …, each at least once, got -1, 0, 1"),
        ({"y": ARRAYS["y"] + 1}, "y must hold all classes 0, 1, …, each at least once, got 1, 2, 3"),
        ({"y": np.array([0, 7] * 3)}, "y must hold all classes 0, 1, …, each at least once, got 0, 7"),
        ({"y": np.arange(6) * 10**6}, "at least once, got 0, 1000000, 2000000"),
        ({"subject": ARRAYS["subject"][:, None]}, r"subject must have an entry .* got shape \[6, 1\]"),
        ({"subject": np.arange(6.0)}, "subject must be an array of names, got float64"),
        ({"subject": np.array([None] * 6)}, "without pickles"),
        (
            {"X": np.where(np.arange(60).reshape(6, 2, 5) < 58, X, np.nan)},
            r"X\[5, 1, 3\] must be a finite number, got nan \(2 such values\)",
        ),
    ],
)
def test_archives_that_hold_something_else(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=rf"mice\.npz: .*{message}"):
        load_signals(write(tmp_path, **changed))


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mice: no such file; published sets are eeg_alcohol"):
        load_signals(tmp_path / "mice")
    with pytest.raises(FileNotFoundError, match=r"eeg_alcohol/eeg_alcohol\.npz is not in"):
        load_signals("eeg_alcohol", tmp_path)
    path = write(tmp_path)
    for content in (b"", b"hello", path.read_bytes()[:200]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"mice\.npz: expected an \.npz archive with arrays X, y and"):
            load_signals(path)
    with open(path, "wb") as file:
        np.save(file, X)
    with pytest.raises(ValueError, match="it holds one array"):
        load_signals(path)


def test_damaged_archives(tmp_path: Path) -> None:
    """Wherever a byte of a compressed archive is another, the error is the same, if there is one."""
    path = tmp_path / "mice.npz"
    np.savez_compressed(path, **ARRAYS)
    whole = path.read_bytes()
    told = []
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            load_signals(path)
        except ValueError as error:
            told.append(error)
    assert all(str(error).startswith(f"{path}: ") for error in told)
    assert zlib.error in {type(error.__cause__) for error in told}


def test_values_of_the_class() -> None:
    signals = Signals(X[:2].tolist(), [0, 1], ["a", "b"], ("one", "two"))
    assert signals.strings(1).y.tolist() == [1]
    with pytest.raises(ValueError, match="scaled_by has no trial"):
        signals.strings(0, [])
    with pytest.raises(ValueError, match="Signals: y must be integers, got float64"):
        Signals(X[:2], [0.0, 0.5], ["a", "b"], ("one", "two"))
    with pytest.raises(ValueError, match=r"Signals: y\[1\] must be a class from 0 to 0, got 1"):
        Signals(X.astype(np.float32)[:2], np.array([0, 1]), np.array(["a", "b"]), ("one",))
