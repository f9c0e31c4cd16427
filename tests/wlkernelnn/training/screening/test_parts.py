from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock, Timeout

from wlkernelnn.datasets import Reject
from wlkernelnn.training.screening import parts as parts_file
from wlkernelnn.training.screening.parts import MANIFEST, Counts, Parts
from wlkernelnn.utils.files import LOCK, UNFINISHED, read_sealed

ORIGIN = {"input": [["a.csv", "1234"]], "options": {"batch_size": 3}}


def table(begin: int, end: int) -> pa.Table:
    rows = range(begin, end)
    value = np.array([i / 10 for i in rows], dtype=np.float32)
    value[::3] = np.nan
    return pa.table({"name, of it": [f'"{i}"' for i in rows], "value": pa.array(value, from_pandas=True)})


def filled(folder: Path, suffix: str) -> Parts:
    parts = Parts(folder, suffix, ORIGIN, resume=False)
    parts.add(table(0, 3), [], Counts(3, 0, 3))
    parts.add(table(3, 7), [Reject(3, "x", "y"), Reject(6, None, "z")], Counts(4, 2, 4))
    parts.add(table(7, 8), [Reject(7, "u", "v")], Counts(1, 1, 1))
    return parts


def test_text_parts_join(tmp_path: Path) -> None:
    parts = filled(tmp_path / "parts", ".csv")
    parts.join(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines() == [
        '"name, of it",value',
        '"""0""",',
        '"""1""",0.1',
        '"""2""",0.2',
        '"""3""",',
        '"""4""",0.4',
        '"""5""",0.5',
        '"""6""",',
        '"""7""",',
    ]
    parts.join_rejects(tmp_path / "rejects.csv")
    assert (tmp_path / "rejects.csv").read_text() == "row,smiles,reason\n4,x,y\n7,,z\n8,u,v\n"
    assert parts.counts == Counts(8, 3, 8)
    parts.clear()
    assert not (tmp_path / "parts").exists()


def test_parquet_parts_join(tmp_path: Path) -> None:
    filled(tmp_path / "parts", ".parquet").join(tmp_path / "out.parquet")
    expected = pa.concat_tables([table(0, 3), table(3, 7), table(7, 8)])
    assert pq.read_table(tmp_path / "out.parquet").equals(expected)


def test_what_the_manifest_does_not_have_is_written_again(tmp_path: Path) -> None:
    parts = filled(tmp_path / "parts", ".csv")
    parts.join(tmp_path / "expected.csv")
    # Killed between a part and its entry: the part is there, and may be anything.
    manifest = tmp_path / "parts" / MANIFEST
    kept = manifest.read_text()
    parts.add(table(50, 60), [Reject(8, "x", "y")], Counts(10, 1, 10))
    manifest.write_text(kept)
    again = Parts(tmp_path / "parts", ".csv", ORIGIN, resume=True)
    assert [part.counts for part in again.done] == [Counts(3, 0, 3), Counts(4, 2, 4), Counts(1, 1, 1)]
    again.join(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "changed", "deleted"])
@pytest.mark.parametrize("name", ["part-000001", "_rejects-000001"])
def test_damaged_parts_are_written_again(tmp_path: Path, suffix: str, damage: str, name: str) -> None:
    """No row is lost without a word: a part counts only as it was written."""
    filled(tmp_path, suffix)
    path = tmp_path / (name + (suffix if name.startswith("part") else ".csv"))
    content = path.read_bytes()
    if damage == "deleted":
        path.unlink()
    else:
        changed = bytes([content[0] ^ 1]) + content[1:]
        path.write_bytes({"emptied": b"", "cut": content[:-3], "changed": changed}[damage])
    again = Parts(tmp_path, suffix, ORIGIN, resume=True)
    assert [part.counts for part in again.done] == [Counts(3, 0, 3)]
    assert filled_names(tmp_path) == {MANIFEST, f"part-000000{suffix}"}
    assert len(Parts(tmp_path, suffix, ORIGIN, resume=True).done) == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_parts_that_are_damaged_before_they_are_joined(tmp_path: Path, suffix: str) -> None:
    parts = filled(tmp_path / "parts", suffix)
    path = tmp_path / "parts" / f"part-000001{suffix}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(FileNotFoundError, match=rf"part-000001{suffix}: missing or not as it was written"):
        parts.join(tmp_path / f"out{suffix}")
    assert not (tmp_path / f"out{suffix}").exists()
    with pytest.raises(FileNotFoundError, match=rf"part-000001{suffix}: missing or not as it was written"):
        parts.check()


def test_a_folder_that_was_deleted_meanwhile(tmp_path: Path) -> None:
    def work() -> None:
        with Parts.alone(tmp_path / "parts", ".parquet", ORIGIN, resume=False) as parts:
            parts.add(table(0, 3), [], Counts(3, 0, 3))
            shutil.rmtree(tmp_path / "parts")
            parts.add(table(3, 7), [], Counts(4, 0, 4))

    with pytest.raises(FileNotFoundError, match="parts: was deleted or replaced"):
        work()


class Killed(BaseException):
    """As by SIGKILL: nothing is tidied up."""


def test_a_kill_at_any_step_of_the_last_tidying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is deleted, renamed or written, one step after the other: every point can be resumed."""
    for name in ("expected", "begun"):
        filled(tmp_path / name, ".csv").join(tmp_path / f"{name}.csv")
    expected = (tmp_path / "expected.csv").read_bytes()
    left, real = 0, {name: getattr(os, name) for name in ("unlink", "rmdir", "replace")}

    def step(name: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal left
        if not left:
            raise Killed
        left -= 1
        return real[name](*args, **kwargs)

    def finish(resume: bool) -> Parts:
        parts = Parts(tmp_path / "parts", ".csv", ORIGIN, resume)
        if not parts.is_joined(tmp_path / "out.csv"):
            parts.join_rejects(tmp_path / "rejects.csv")
            parts.join(tmp_path / "out.csv")
        parts.clear()
        return parts

    points, killed = 0, True
    while killed:
        shutil.rmtree(tmp_path / "parts", ignore_errors=True)
        filled(tmp_path / "parts", ".csv")
        left, killed = points, False
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, partial(step, name))
            try:
                finish(resume=True)
            except Killed:
                killed = True
        again = Parts(tmp_path / "parts", ".csv", ORIGIN, resume=True)
        if again.done:  # else all had gone, after all was written
            assert again.counts == Counts(8, 3, 8)
            finish(resume=True)
        assert (tmp_path / "out.csv").read_bytes() == expected
        assert not (tmp_path / "parts").exists() or not again.done
        assert {path.name for path in tmp_path.iterdir() if path.name.startswith(UNFINISHED)} == set()
        points += 1
    assert points > 8


def test_the_manifest_is_written_less_often_as_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill loses the parts that it lacks; an error and the end of the run lose none."""
    monkeypatch.setattr(parts_file, "OFTEN", 2)
    killed = Parts(tmp_path / "parts", ".csv", ORIGIN, resume=False)
    noted = []
    for begin in range(8):
        killed.add(table(begin, begin + 1), [], Counts(1, 0, 1))
        noted.append(len(read_sealed(tmp_path / "parts" / MANIFEST)["parts"]))
    assert noted == [1, 2, 2, 4, 4, 4, 4, 8]
    for rows in (3, 4):
        with Parts.alone(tmp_path / "parts", ".csv", ORIGIN, resume=True) as parts:
            assert parts.counts.read == 5 + rows
            parts.add(table(8, 9), [], Counts(1, 0, 1))
            assert len(read_sealed(tmp_path / "parts" / MANIFEST)["parts"]) == 5 + rows


def test_parts_of_another_run_are_refused(tmp_path: Path) -> None:
    filled(tmp_path / "parts", ".csv")
    with pytest.raises(FileExistsError, match="holds 3 finished parts of an earlier run"):
        Parts(tmp_path / "parts", ".csv", ORIGIN, resume=False)
    other = ORIGIN | {"options": {"batch_size": 4}}
    with pytest.raises(ValueError, match=r"had options \{'batch_size': 3\}, now it is \{'batch_size': 4\}"):
        Parts(tmp_path / "parts", ".csv", other, resume=True)
    (tmp_path / "parts" / MANIFEST).write_text("{}")
    with pytest.raises(ValueError, match="not a manifest"):
        Parts(tmp_path / "parts", ".csv", ORIGIN, resume=True)


@pytest.mark.parametrize(
    "name", ["origin.json", "model_0", "part-000000.csv.bak", "part-000001.csv", "notes"]
)
@pytest.mark.parametrize("begun", [False, True])
def test_folders_of_others_are_refused(tmp_path: Path, name: str, begun: bool) -> None:
    """What is there stays, and nothing is written beside it."""
    if begun:
        filled(tmp_path, ".csv")
        name = name.replace("part-000001", "part-000004")  # of which the manifest knows nothing
    (tmp_path / name).write_text("theirs")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(FileExistsError, match=rf"holds {name}, which this run has not written"):
        Parts(tmp_path, ".csv", ORIGIN, resume=begun)
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_killed_run_leaves_is_no_hindrance(tmp_path: Path) -> None:
    filled(tmp_path, ".csv")
    for name in (
        f"{UNFINISHED}x1y2.part-000003.csv",
        "part-000003.csv",
        "_rejects-000003.csv",
        f"{UNFINISHED}x1.{MANIFEST}",
    ):
        (tmp_path / name).write_text("half of it")
    assert len(Parts(tmp_path, ".csv", ORIGIN, resume=True).done) == 3


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").write_text("mine")
    with pytest.raises(NotADirectoryError, match="parts is a file, expected a folder"):
        Parts(tmp_path / "parts", ".parquet", ORIGIN, resume=False)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Another would take unfinished files for its own; a folder that was made for nothing goes."""
    folder = tmp_path / "parts"
    with Parts.alone(folder, ".csv", ORIGIN, resume=False) as parts:
        with pytest.raises(Timeout):
            FileLock(folder / LOCK, timeout=0).acquire()
        parts.add(table(0, 3), [], Counts(3, 0, 3))
    assert filled_names(folder) == {MANIFEST, "part-000000.csv", LOCK}
    again = Parts.alone(folder, ".csv", ORIGIN, resume=False)
    with pytest.raises(FileExistsError, match="holds 1 finished parts"), again:
        pass
    assert MANIFEST in filled_names(folder)
    with pytest.raises(KeyError), Parts.alone(tmp_path / "new", ".csv", ORIGIN, resume=False):
        raise KeyError
    assert not (tmp_path / "new").exists()
    with Parts.alone(tmp_path / "new", ".csv", ORIGIN, resume=False) as parts:
        parts.clear()
        filled(tmp_path / "new", ".csv")  # by another process, since
    assert (tmp_path / "new" / MANIFEST).is_file()


def filled_names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}
