"""Trainings killed at random moments, with the temporary folder on another disk: they resume bit by bit."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
KILLS = 20

SCRIPT = """
import sys
from pathlib import Path
from tests.wlkernelnn.training.runs import run
from tests.molecules import quick
run(Path(sys.argv[1]), options=quick(epochs=15, batch_size=4), ensemble_size=2, resume=True)
"""


def start(folder: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if Path("/dev/shm").is_dir():
        environment["TMPDIR"] = "/dev/shm"
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder)]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE)


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a run, without what says how long it took."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in (".safetensors", ".csv")
    }


def test_random_kills(tmp_path: Path) -> None:
    begin = time.monotonic()
    whole = start(tmp_path / "whole")
    said = whole.communicate()[1]
    assert whole.returncode == 0, said.decode()
    seconds = time.monotonic() - begin
    draw, kills, folder = random.Random(0), 0, tmp_path / "killed"
    # As soon as the run is there: what comes before is the import of libraries.
    while kills < KILLS:
        process = start(folder)
        known = {path: path.stat().st_mtime_ns for path in folder.rglob("*.ckpt")}
        while process.poll() is None:
            if {path: path.stat().st_mtime_ns for path in folder.rglob("*.ckpt") if path.exists()} != known:
                break
            time.sleep(0.001)
        time.sleep(draw.random() * seconds / 30)
        process.kill()
        said = process.communicate()[1]
        assert b"Error" not in said, said.decode()
        if process.returncode == 0:
            assert contents(folder) == contents(tmp_path / "whole")
            folder = tmp_path / f"killed{kills}"  # again
        kills += 1
    process = start(folder)
    said = process.communicate()[1]
    assert process.returncode == 0, said.decode()
    assert contents(folder) == contents(tmp_path / "whole")
    assert not [*folder.rglob("*.ckpt"), *folder.rglob(".wlkernelnn-*")]
