from __future__ import annotations

import csv
import json
import math
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from safetensors.torch import save_file

from wlkernelnn.utils.files import (
    UNFINISHED,
    alone_in,
    atomic_path,
    clear_unfinished,
    csv_text,
    json_text,
    read_json,
    read_sealed,
    read_tensors,
    read_yaml,
    understood,
    write_sealed,
    write_tensors,
    write_text,
)

TENSORS = {
    "floats": torch.randn(3, 4),
    "codes": torch.arange(250, 256, dtype=torch.uint8),
    "half": torch.randn(5).bfloat16(),
    "none": torch.zeros(0, 3, dtype=torch.int64),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
}


def test_tensors_and_header_come_back(tmp_path: Path) -> None:
    header = {"name": "Größe", "sizes": [1, 2], "missing": None, "nested": {"a": 1.5}}
    write_tensors(tmp_path / "a.safetensors", TENSORS, header)
    tensors, came = read_tensors(tmp_path / "a.safetensors")
    assert came == header
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in tensors.items():
        assert tensor.dtype == TENSORS[name].dtype
        assert torch.equal(tensor, TENSORS[name])


def test_equal_content_is_equal_bytes(tmp_path: Path) -> None:
    path, written = tmp_path / "a.safetensors", set()
    for _ in range(20):
        write_tensors(path, TENSORS | {'ä " \\': torch.ones(2)}, {"name": "ü", "quoted": '"'})
        written.add(path.read_bytes())
    assert len(written) == 1
    assert read_tensors(path)[1] == {"name": "ü", "quoted": '"'}


def test_numbers_that_json_lacks_are_null() -> None:
    value = {"a": [1.5, float("nan")], "b": {"c": float("inf"), "d": ("x", 2, None)}}
    text = json_text(value, indent=1)
    assert json.loads(text) == {"a": [1.5, None], "b": {"c": None, "d": ["x", 2, None]}}
    assert text.endswith("}\n")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe"])
def test_what_is_no_json_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json: not JSON \("):
        read_json(path)
    path.write_bytes(json_text({"a": [1]}).encode())
    assert read_json(path) == {"a": [1]}


def test_strided_and_trained_tensors_are_written_right(tmp_path: Path) -> None:
    base = torch.arange(12.0).view(3, 4)
    tensors = {"transposed": base.t(), "column": base[:, 1].clone().requires_grad_(), "slice": base[1:, ::2]}
    write_tensors(tmp_path / "a.safetensors", tensors, {})
    for name, tensor in read_tensors(tmp_path / "a.safetensors")[0].items():
        assert torch.equal(tensor, tensors[name])


@pytest.mark.parametrize("length", [0, 8, 0.99], ids=lambda length: f"first_{length}")
def test_truncated_file_is_named(tmp_path: Path, length: float) -> None:
    path = tmp_path / "cut.safetensors"
    write_tensors(path, TENSORS, {"name": "x"})
    content = path.read_bytes()
    path.write_bytes(content[: int(length * len(content)) if 0 < length < 1 else int(length)])
    with pytest.raises(ValueError, match=r"cut\.safetensors: not a whole safetensors file .*cut short"):
        read_tensors(path)


@pytest.mark.parametrize("content", [b"smiles,y\nCCO,1\n" * 5, b"\x00" * 100], ids=["csv", "zeros"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.txt: not a whole safetensors file of wlkernelnn"):
        read_tensors(path)


@pytest.mark.parametrize(
    "metadata", [None, {"format": "pt"}, {"header": "{"}], ids=["none", "foreign", "broken"]
)
def test_safetensors_of_others_are_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "foreign.safetensors"
    save_file({"a": torch.ones(2)}, path, metadata=metadata)
    with pytest.raises(ValueError, match=r"foreign\.safetensors: not a whole safetensors file of wlkernelnn"):
        read_tensors(path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.safetensors: no such file"):
        read_tensors(tmp_path / "absent.safetensors")


def test_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half of the n")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_links_are_written_through(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link, file = tmp_path / "link.txt", folder / "file.txt"
    link.symlink_to(file)
    for content in ("first", "second"):  # the first makes the file
        write_text(link, content)
        assert link.is_symlink()
        assert file.read_text() == content
    assert os.listdir(folder) == ["file.txt"]


@contextmanager
def limited(kind: str, value: int) -> Iterator[None]:
    """The process may use only so much of something; a file that may not grow is as one on a full disk."""
    resource = pytest.importorskip("resource")  # Windows has none
    number = getattr(resource, kind)
    before = resource.getrlimit(number)
    resource.setrlimit(number, (value, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(number, before)


def test_a_full_disk_names_file_and_remedy(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    tensors = {"a": torch.zeros(10**6)}
    big = pa.table({"a": np.random.default_rng(0).random(10**6)})

    def parquet(path: Path) -> None:
        with atomic_path(path) as temporary:
            pq.write_table(big, temporary)

    for name, write in (
        ("a.txt", lambda path: write_text(path, "x" * 10**6)),
        ("a.safetensors", lambda path: write_tensors(path, tensors, {})),
        ("a.parquet", parquet),
    ):
        with limited("RLIMIT_FSIZE", 10**5), pytest.raises(OSError, match=r"ulimit -f\)") as raised:
            write(tmp_path / name)
        assert str(raised.value).endswith(f"{str(tmp_path / name)!r}")
        assert "\n" not in str(raised.value)
    assert os.listdir(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_too_many_open_files_name_the_file(tmp_path: Path) -> None:
    with limited("RLIMIT_NOFILE", 3), pytest.raises(OSError, match=r"ulimit -n.*a\.txt'"):
        write_text(tmp_path / "a.txt", "")


def test_a_folder_that_goes_meanwhile(tmp_path: Path) -> None:
    def work(again: bool) -> None:
        with alone_in(tmp_path / "run"):
            shutil.rmtree(tmp_path / "run")
            if again:
                write_text(tmp_path / "run" / "a.txt", "")  # makes another one

    for again in (False, True):
        with pytest.raises(FileNotFoundError, match="run: was deleted or replaced during the work there"):
            work(again)


def test_what_was_left_unfinished_is_removed(tmp_path: Path) -> None:
    ours, others = tmp_path / f"{UNFINISHED}x1y2.a.csv", tmp_path / ".hidden"
    for path in (ours, others):
        path.touch()
    with alone_in(tmp_path), atomic_path(tmp_path / "b.csv") as temporary:
        assert not ours.exists()
        with alone_in(tmp_path):  # again, by the same process, which writes there
            assert temporary.exists()
    assert others.exists()


@pytest.mark.parametrize("name", ["a.csv", "long" * 20 + ".parquet"])
def test_what_was_left_of_one_file_is_removed(tmp_path: Path, name: str) -> None:
    with atomic_path(tmp_path / name) as temporary:
        left = temporary.name
    for path in (left, f"{UNFINISHED}x1y2.other.csv"):
        (tmp_path / path).touch()
    clear_unfinished(tmp_path, of=name)
    assert {path.name for path in tmp_path.iterdir()} == {name, f"{UNFINISHED}x1y2.other.csv"}


def test_sealed_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_sealed(path, {"b": [1.5, math.nan], "a": "ß"})
    assert read_sealed(path) == {"b": [1.5, None], "a": "ß"}
    text = path.read_text()
    path.write_text(" " + text.replace("\n", ""))
    assert read_sealed(path) == {"b": [1.5, None], "a": "ß"}
    path.write_text(text.replace("1.5", "1.25"))
    with pytest.raises(ValueError, match=r'a\.json: not what was written .*delete its entry "digest"'):
        read_sealed(path)
    path.write_text('{"a": 1}')  # of an earlier version
    assert read_sealed(path) == {"a": 1}
    path.write_text("[1]")
    with pytest.raises(ValueError, match=r"a\.json: expected a JSON object, got \[1\]"):
        read_sealed(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "not YAML"),
        (b"\xff\xfea", "not YAML"),
        (b"a: \x01", "not YAML"),
        (b"[" * 100_000, "nested more than 20 deep, in line 1"),
        (b"\n".join(b" " * i + b"a:" for i in range(30)), "nested more than 20 deep, in line 21"),
        (b"a: !!python/object/apply:os.system [ls]", "not YAML: could not determine a constructor"),
    ],
    ids=["cut", "encoding", "control", "deep", "deep lines", "tag"],
)
def test_what_is_no_yaml_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"c\.yaml: .*{message}"):
        read_yaml(path, yaml.SafeLoader)
    path.write_text("a: [1, {b: 2}]")
    assert read_yaml(path, yaml.SafeLoader) == {"a": [1, {"b": 2}]}


def test_header_that_json_cannot_hold_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="JSON"):
        write_tensors(tmp_path / "a.safetensors", {}, {"tensor": torch.ones(1)})
    assert os.listdir(tmp_path) == []


def test_readers_see_the_old_file_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.txt"
    write_text(path, "old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent
        assert temporary.suffix == ".txt"
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(path.parent) == ["a.txt"]


def test_open_mapping_survives_a_new_version(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"a": torch.zeros(1000)}, {})
    mapped = read_tensors(path)[0]["a"]
    write_tensors(path, {"a": torch.ones(1000)}, {})
    assert not mapped.any()
    assert bool(read_tensors(path)[0]["a"].all())


def test_files_are_as_readable_as_the_umask_says(tmp_path: Path) -> None:
    previous = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "")
        write_tensors(tmp_path / "a.safetensors", {"a": torch.ones(1)}, {})
        assert os.umask(0o027) == 0o027  # and the umask is as it was
    finally:
        os.umask(previous)
    for name in ("a.txt", "a.safetensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o640


def test_names_as_long_as_they_may_be(tmp_path: Path) -> None:
    write_text(tmp_path / ("λ" * 125 + ".txt"), "")  # 254 bytes of 255
    assert len(list(tmp_path.iterdir())) == 1


def test_text_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "λ → σ")
    assert (tmp_path / "a.txt").read_bytes().decode("utf-8") == "λ → σ"


def test_alone_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = f"""
from wlkernelnn.utils.files import alone_in
for _ in range(2):
    try:
        with alone_in({str(folder)!r}):
            print("alone", flush=True)
    except FileExistsError as error:
        print(error, flush=True)
    input()
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as another:
        assert another.stdin is not None
        assert another.stdout is not None
        with alone_in(folder), alone_in(folder):  # who is may say so again
            said = another.stdout.readline()
        assert "run: another process works there; wait for it, or choose another folder" in said
        another.stdin.write("again\n")
        another.stdin.flush()
        assert another.stdout.readline() == "alone\n"
        another.stdin.write("enough\n")
    assert another.returncode == 0
    (tmp_path / "file").touch()
    with (
        pytest.raises(NotADirectoryError, match="file is a file, expected a folder"),
        alone_in(tmp_path / "file"),
    ):
        pass


@pytest.mark.parametrize("cell", ["a", "a,b", 'a"b', "a\nb", "a\rb", "a\r\nb", "", " a "])
def test_cells_of_csv(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "x.csv"
    text = csv_text([["one", "two"], [cell, 3], [4, cell]])
    path.write_text(text, encoding="utf-8", newline="")
    with open(path, encoding="utf-8", newline="") as file:
        assert list(csv.reader(file, strict=True)) == [["one", "two"], [cell, "3"], ["4", cell]]
    assert path.read_bytes().startswith(b"one,two\n")


@pytest.mark.parametrize(
    "error", [KeyError("kind"), TypeError("no"), ZeroDivisionError(), FileNotFoundError("b")]
)
def test_content_that_is_not_understood(error: Exception) -> None:
    """Whatever goes wrong names the file; a missing one stays a missing one."""
    missing = isinstance(error, FileNotFoundError)
    said = "^b$" if missing else rf"^a\.json: not as a model is saved \({type(error).__name__}: "
    with (
        pytest.raises(FileNotFoundError if missing else ValueError, match=said),
        understood("a.json", "a model is saved"),
    ):
        raise error
