"""Commands write to a small disk with hardly any space left, and go on once there is some."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from safetensors import safe_open

from tests.inputs.molecules import SMALL_RUN, regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.training.screening import filling

pytestmark = pytest.mark.slow
SIZE = 4 * 2**20


@contextmanager
def small_disk(place: Path, free: int) -> Iterator[Path]:
    """A file system in memory with so many kB left; its file ``ballast`` takes the rest."""
    place.mkdir(exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", place]
    if (mounted := subprocess.run(words, capture_output=True, text=True)).returncode:
        pytest.skip(f"may not mount a file system: {mounted.stderr.strip()}")
    try:
        (place / "ballast").write_bytes(bytes(SIZE - 1024 * free))
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def check_same(folder: Path, expected: Path) -> None:
    """Weights bit by bit; predictions but for rounding, which depends on where a run began again."""
    for path in expected.rglob("*"):
        other = folder / path.relative_to(expected)
        if path.suffix == ".safetensors":
            assert safe_open(other, "pt").metadata()["digest"] == safe_open(path, "pt").metadata()["digest"]
        elif path.suffix in (".csv", ".parquet"):
            read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
            pd.testing.assert_frame_equal(read(other), read(path), rtol=1e-5)


def check(
    words: Callable[[Path], list[str]],
    steps: range,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    failures: int,
) -> None:
    """With ever more space: one line, then ``--resume`` gives the same files as on a large disk."""
    assert main(words(tmp_path / "large")) == 0
    failed = set()
    for free in steps:
        with small_disk(tmp_path / "small", free) as disk:
            capsys.readouterr()
            if main(words(disk)):
                *told, said = capsys.readouterr().err.splitlines()
                assert "error" not in "".join(told)
                assert "error: [Errno 28] No space left on device (free some space, or write" in said
                assert said.endswith("'")
                failed.add(said.rpartition("/")[2])
            (disk / "ballast").unlink()
            assert main([*words(disk), "--resume"]) == 0
            check_same(disk, tmp_path / "large")
            assert not [*disk.rglob(".wlkernelnn-*"), *disk.rglob("*.ckpt")]
    assert len(failed) >= failures, failed  # different files


def train_words(table: Path, output: Path) -> list[str]:
    words = ["train", "--data-path", str(table), "--target-columns", "Act", *SMALL_RUN]
    return [*words, "--accelerator", "cpu", "--num-workers", "0", "--output-dir", str(output)]


def test_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write_table(tmp_path / "t.csv", regression_set())
    check(lambda place: train_words(table, place / "run"), range(0, 320, 16), tmp_path, capsys, failures=3)


@pytest.mark.parametrize(("name", "failures"), [("preds", 3), ("preds.csv", 4), ("preds.parquet", 4)])
def test_predict(
    name: str,
    failures: int,
    run_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filling, "ROWS", 20)
    table = write_table(tmp_path / "t.csv", regression_set())
    (tmp_path / "large").mkdir()

    def words(place: Path) -> list[str]:
        words = ["predict", "--test-path", str(table), "--model-path", str(run_folder)]
        return [*words, "--preds-path", str(place / name), "--num-workers", "0"]

    check(words, range(0, 68, 4), tmp_path, capsys, failures)


def test_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives up alone, with one line; the training goes on."""
    table = write_table(tmp_path / "t.csv", regression_set())
    for free in (0, 4, 8):
        with small_disk(tmp_path / "small", free) as disk:
            monkeypatch.setenv("WLKERNELNN_CACHE", str(disk))
            with pytest.warns(UserWarning, match=r"No space left on device .*; going on without the cache"):
                assert main(train_words(table, tmp_path / f"run{free}")) == 0
            assert [path.name for path in disk.rglob("*") if path.is_file()] == ["ballast"]


@pytest.mark.parametrize("name", ["preds", "preds.csv"])
def test_a_disk_that_is_only_read(
    name: str, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write_table(tmp_path / "t.csv", regression_set())
    with small_disk(tmp_path / "small", 100) as disk:
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        words = ["predict", "--test-path", str(table), "--model-path", str(run_folder)]
        for command in (train_words(table, disk / "run"), [*words, "--preds-path", str(disk / name)]):
            assert main(command) == 1
            said = capsys.readouterr().err.splitlines()[-1]
            assert f"error: [Errno 30] Read-only file system (write to another disk): '{disk}/" in said
