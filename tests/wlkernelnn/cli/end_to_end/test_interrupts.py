"""Ctrl-C, which a terminal sends to all processes of a command: while they start, and while they work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, product
from pathlib import Path

import pandas as pd
import pytest

from tests.inputs.molecules import SMALL_RUN, regression_set, write_table
from wlkernelnn.training.screening.parts import MANIFEST

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs Linux's lists of children"),
]
# For busy machines; on a quiet one these are seconds.
PATIENCE = 300


def children(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


def runs(pid: str) -> bool:
    """Whether a process is there, and not only its exit status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command(words: list[str]) -> list[str]:
    return [sys.executable, "-m", "wlkernelnn", *words]


def interrupted(words: list[str], when: Callable[[subprocess.Popen[str]], bool], log: Path) -> str:
    """Send SIGINT to a command and all its processes; what it said, once all have ended."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with log.open("w") as out:
        process = subprocess.Popen(
            command(words), stdout=out, stderr=out, start_new_session=True, env=environment, text=True
        )
        deadline = time.monotonic() + PATIENCE
        while not when(process):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        alive = children(process)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(PATIENCE) == 130, log.read_text()
    assert len(alive) >= 2
    while any(map(runs, alive)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return log.read_text()


def resumed(words: list[str]) -> None:
    done = subprocess.run(command([*words, "--resume"]), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_predict(run_folder: Path, tmp_path: Path) -> None:
    """The parts that are finished stay, and are not written again."""
    pieces = ("C", "N", "O", "S", "C(C)", "C(F)", "C(O)", "C(N)", "c1ccc(cc1)", "C1CCN(CC1)")
    smiles = ["".join(five) for five in islice(product(pieces, repeat=5), 40_000)]
    pd.DataFrame({"smiles": smiles}).to_csv(tmp_path / "t.csv", index=False)
    words = ["predict", "--test-path", str(tmp_path / "t.csv"), "--model-path", str(run_folder)]
    words += ["--preds-path", str(tmp_path / "preds"), "--num-workers", "2"]
    first, manifest = tmp_path / "preds" / "part-000000.parquet", tmp_path / "preds" / MANIFEST
    for when in (lambda process: len(children(process)) >= 3, lambda _: manifest.exists()):
        said = interrupted(words, when, tmp_path / "log")
        assert said.endswith(f"interrupted (parts are kept in {tmp_path}/preds: resume goes on)\n")
        assert "Traceback" not in said
    written = first.stat().st_mtime_ns
    resumed(words)
    assert first.stat().st_mtime_ns == written
    assert pd.read_parquet(tmp_path / "preds")["smiles"].tolist() == smiles


def test_train(tmp_path: Path) -> None:
    """On two devices: the epochs that are finished stay."""
    table = write_table(tmp_path / "t.csv", regression_set())
    words = ["train", "--data-path", str(table), "--target-columns", "Act", *SMALL_RUN, "--epochs", "200"]
    words += ["--accelerator", "cpu", "--devices", "2", "--num-workers", "0"]
    words += ["--output-dir", str(tmp_path / "run")]
    last = tmp_path / "run" / "model_0" / "training" / "last.ckpt"
    for when in (lambda process: len(children(process)) >= 3, lambda _: last.exists()):
        said = interrupted([*words, "--resume"], when, tmp_path / "log")
        assert said.endswith(f"interrupted (--config {tmp_path}/run/config.yaml --resume goes on)\n")
        assert "Traceback" not in said
    assert last.exists()
    resumed(words)
    assert len(pd.read_csv(tmp_path / "run" / "model_0" / "history.csv")) == 200
