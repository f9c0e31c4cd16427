from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from wlkernelnn.bench.harness.provenance import about, digest, state, versions


def test_about_names_the_command() -> None:
    known = about("some-name", ["--dir", "a b"], quick=True, packages=["pandas"])
    assert known["command"] == "wlkernelnn benchmark some-name --dir 'a b'"
    assert known["mode"] == "quick"
    assert known["torch"] == torch.__version__
    assert known["pandas"] == pandas.__version__
    assert "cores" in str(known["processor"])


def test_torch_is_named_with_its_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.0+cu999")
    assert versions("torch")["torch"] == "2.13.0+cu999"


def test_every_state_of_the_source_has_a_name(tmp_path: Path) -> None:
    folders = {"some": tmp_path / "some", "some.other": tmp_path / "other"}
    for folder in folders.values():
        folder.mkdir()
        (folder / "module.py").write_text("A = 1\n")
    outside = state(folders)
    assert outside.startswith("not in git, ")

    def git(*arguments: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@y.z")
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    git("init", "--quiet")
    git("add", "some")
    git("commit", "--quiet", "-m", "x")
    assert state(folders) == outside  # half of it is not in git
    git("add", "other")
    git("commit", "--quiet", "-m", "y")
    clean = git("rev-parse", "--short", "HEAD")
    assert state(folders) == clean
    (tmp_path / "some" / "table.md").write_text("what a run wrote\n")
    assert state(folders) == clean
    names = {clean}
    for path, text in (
        ("some/module.py", "A = 2\n"),
        ("some/module.py", "A = 3\n"),
        ("other/deep/new.py", ""),
        ("other/deep/new.py", "A = 1\n"),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
        assert state(folders).startswith(f"{clean}+")
        names.add(state(folders))
    assert len(names) == 5
    (tmp_path / "other" / "deep" / "new.py").unlink()
    (tmp_path / "some" / "module.py").write_text("A = 1\n")
    git("add", "some/table.md")
    git("commit", "--quiet", "-m", "a table")
    assert state(folders) == clean
    (tmp_path / "some" / "module.py").write_text("A = 4\n")
    git("commit", "--quiet", "--all", "-m", "z")
    assert state(folders) == git("rev-parse", "--short", "HEAD") != clean


def test_equal_content_has_one_name() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    name = digest(values, np.array(["a", "b"]))
    assert len(name) == 8
    assert digest(torch.from_numpy(values.T.copy()).t(), np.array(["a", "b"])) == name


def test_whatever_differs_has_another() -> None:
    values = np.arange(6)
    others = [
        (values, values),
        (values.reshape(2, 3),),
        (values.astype(np.uint64),),
        (values + 1,),
        (values[:3], values[3:]),
        (values[:4], values[4:]),
    ]
    names = [digest(values), *(digest(*other) for other in others)]
    assert len(set(names)) == 7
