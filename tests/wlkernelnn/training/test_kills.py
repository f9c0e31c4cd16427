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
import itertools, json, os, random, shutil, signal, sys, time
from pathlib import Path
from safetensors import safe_open
from tests.inputs.molecules import SMALL_RUN, regression_set, write_table
from wlkernelnn.cli.main import main
from wlkernelnn.datasets.molecules import chunks
from wlkernelnn.training.callbacks import History
from wlkernelnn.training.molecules.module import NetworkModule
from wlkernelnn.utils import folders

root, draw, kills = Path(sys.argv[1]), random.Random(0), 5
table = write_table(root / "table.csv", regression_set())

# Each phase is a function: the process dies where one of its calls begins. The last two surround a renaming.
PHASES = {
    "featurizing": (chunks.Chem, "MolFromSmiles"),
    "within an epoch": (NetworkModule, "training_step"),
    "between epochs": (History, "on_train_epoch_start"),
    "before a file has its name": (os, "replace"),
    "after that": (folders, "_sync_folder"),
}

def counted(owner, name, last):
    real, calls = getattr(owner, name), itertools.count(1)
    def call(*args, **kwargs):
        if next(calls) == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)
    setattr(owner, name, call)
    return calls

def train(folder, phase=None, last=None, seconds=None):
    pid = os.fork()
    if not pid:
        os.environ["WLKERNELNN_CACHE"] = str(folder / "cache")
        calls = {name: counted(*where, last if name == phase else None) for name, where in PHASES.items()}
        words = ["train", "--data-path", str(table), "--target-columns", "Act", *SMALL_RUN]
        words += ["--epochs", "4", "--ensemble-size", "2", "--num-workers", "0", "--accelerator", "cpu"]
        status = main([*words, "--output-dir", str(folder / "run"), "--resume"])
        if folder.name == "whole":
            told = {name: next(count) - 1 for name, count in calls.items()}
            (root / "calls.json").write_text(json.dumps(told))
        os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

def contents(folder):
    # safetensors writes its metadata in any order; the digest of header and weights is among them.
    files = folder.glob("run/*/*.safetensors")
    weights = {path.parent.name: safe_open(path, "pt").metadata()["digest"] for path in files}
    tables = {path.parent.name + path.name: path.read_bytes() for path in (folder / "run").rglob("*.csv")}
    return weights, tables, json.loads((folder / "run" / "metrics.json").read_text())["scores"]

def check(folder, *kill):
    status = train(folder, *kill)
    assert status in (0, signal.SIGKILL), kill
    assert train(folder) == 0, kill
    assert contents(folder) == contents(root / "whole"), kill
    assert not [*folder.rglob("*.ckpt"), *folder.rglob(".wlkernelnn-*")], kill
    shutil.rmtree(folder)
    return status == signal.SIGKILL

begin = time.monotonic()
assert train(root / "whole") == 0
seconds = time.monotonic() - begin
for phase, calls in json.loads((root / "calls.json").read_text()).items():
    assert calls >= kills, (phase, calls)
    for last in sorted(draw.sample(range(1, calls + 1), kills)):
        assert check(root / "killed", phase, last), phase
    print(kills, "kills of", calls, "moments", phase)
done = 0
while done < kills:
    done += check(root / "killed", None, None, draw.random() * seconds * 0.6)
print(kills, "kills at any time in", f"{seconds:.1f} s")
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
    assert done.stdout.count("5 kills") == 6
