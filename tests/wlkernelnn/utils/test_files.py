from __future__ import annotations

import csv
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from wlkernelnn.utils.files import (
    alone_in,
    atomic_path,
    csv_text,
    json_text,
    read_json,
    read_tensors,
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


def test_text_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "λ → σ")
    assert (tmp_path / "a.txt").read_bytes().decode("utf-8") == "λ → σ"


def test_alone_in_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    script = f"""
from wlkernelnn.utils.files import alone_in
try:
    with alone_in({str(folder)!r}):
        print("alone")
except FileExistsError as error:
    print(error)
"""

    def another() -> str:
        return subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout

    with alone_in(folder), alone_in(folder):  # who is may say so again
        assert "run: another process works there; wait for it, or choose another folder" in another()
    assert another() == "alone\n"
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
