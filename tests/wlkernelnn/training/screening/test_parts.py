from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from filelock import FileLock, Timeout

from wlkernelnn.datasets import Reject
from wlkernelnn.training.screening.parts import MANIFEST, Counts, Parts
from wlkernelnn.utils.files import LOCK

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
    assert again.done == [Counts(3, 0, 3), Counts(4, 2, 4), Counts(1, 1, 1)]
    again.join(tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


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
        ".part-000003.csv.x1y2.csv",
        "part-000003.csv",
        "_rejects-000003.csv",
        f".{MANIFEST}.x1.json",
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
