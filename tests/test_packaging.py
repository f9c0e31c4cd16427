"""The wheel: what it holds, and what it must not leave at the top of site-packages."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("sequence", "datasets", "bench", "tests")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that this test also finds files that the sdist lacks."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


def test_wheel_has_every_module(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    mapped = {
        "sequence": "wlkernelnn/sequence",
        "datasets": "wlkernelnn/datasets",
        "bench": "wlkernelnn/bench",
    }
    for folder in ("wlkernelnn", *mapped):
        for source in (ROOT / folder).rglob("*.py"):
            relative = source.relative_to(ROOT).as_posix()
            inside = relative.replace(folder, mapped.get(folder, folder), 1)
            assert inside in names, f"{relative} is missing from the wheel (packages in setup.cfg)"
    assert "wlkernelnn/py.typed" in names
    assert not [name for name in names if name.split("/")[0] in FOLDERS]


def test_wheel_in_a_fresh_environment(wheel: Path, tmp_path: Path) -> None:
    """Outside the checkout, dependencies taken from this environment and the package only from the wheel."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(install, check=True, cwd=tmp_path)
    # The outer environment's libraries, after the fresh one's own; its editable finder stays behind.
    libraries = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    script = f"""
import sys
sys.path.extend({libraries!r})
import importlib.util
import wlkernelnn.datasets, wlkernelnn.sequence, wlkernelnn.bench
assert wlkernelnn.datasets.__file__.startswith({str(tmp_path)!r}), wlkernelnn.datasets.__file__
from wlkernelnn import WLKernelConv
print(WLKernelConv(3, 4))
site = [p for p in sys.path if p.startswith({str(tmp_path)!r})]
from importlib.machinery import PathFinder
for name in {FOLDERS!r}:
    assert PathFinder.find_spec(name, site) is None, name
"""
    done = subprocess.run([python, "-I", "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "WLKernelConv(3, 4" in done.stdout
