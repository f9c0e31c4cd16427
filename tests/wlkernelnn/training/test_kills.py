"""Trainings killed at random moments, with the temporary folder on another disk: they resume bit by bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

# One process imports everything, once; each training is a fork of it.
SCRIPT = """
import os, random, signal, sys, time
from pathlib import Path
from tests.molecules import quick, regression_set
from tests.wlkernelnn.training.runs import run

regression_set()
root, kills, draw = Path(sys.argv[1]), 20, random.Random(0)

def train(folder, kill_after=None):
    pid = os.fork()
    if not pid:
        run(folder, options=quick(epochs=6), ensemble_size=2, resume=True)
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def contents(folder):
    kept = (path for path in folder.rglob("*") if path.suffix in (".safetensors", ".csv"))
    return {path.relative_to(folder): path.read_bytes() for path in kept}

begin = time.monotonic()
assert train(root / "whole") == 0
seconds, number, done = time.monotonic() - begin, 0, 0
while done < kills:
    folder = root / f"killed{number}"
    status = train(folder, draw.random() * seconds * 0.6)
    done += status != 0
    if status == 0 or done == kills:
        assert train(folder) == 0
        assert contents(folder) == contents(root / "whole"), folder
        assert not [*folder.rglob("*.ckpt"), *folder.rglob(".wlkernelnn-*")]
        number += 1
print(done, "kills", number, "runs", f"{seconds:.1f} s each")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_random_kills(tmp_path: Path) -> None:
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    if Path("/dev/shm").is_dir():
        environment["TMPDIR"] = "/dev/shm"
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)
    assert "20 kills" in done.stdout
