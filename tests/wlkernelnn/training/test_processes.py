"""Trainings on two processes equal those on one: weights, history and scores."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inputs.molecules import quick, regression_set, small_network
from wlkernelnn import MoleculeRegressor
from wlkernelnn.training import DivergedError, LanguageOptions, fit, fit_language_model, loop
from wlkernelnn.training.group import environment_of
from wlkernelnn.utils.interrupts import without_interrupts

# One process imports everything, once; those that train are forks of it.
SCRIPT = """
import json, os, signal, sys
from pathlib import Path
import numpy as np
from pytorch_lightning.plugins.environments import LightningEnvironment
from tests.inputs.molecules import SMALL_RUN, classification_set, quick, regression_set
from tests.inputs.molecules import small_network, write_table
from tests.wlkernelnn.training.text.test_classification import classifier, reviews
from tests.wlkernelnn.training.text.test_language import corpus, model
from wlkernelnn.cli.main import main
from wlkernelnn.training import (
    ClassifierOptions, LanguageOptions, fit, fit_classifier, fit_language_model, processes
)
from wlkernelnn.training.molecules.module import NetworkModule

processes.START, place = "fork", Path(sys.argv[1])
exact = {"precision": "64-true", "accelerator": "cpu"}

def same(left, right, tolerance=1e-6):
    assert left.keys() == right.keys()
    for name, value in left.items():
        np.testing.assert_allclose(value, right[name], rtol=tolerance, atol=tolerance, err_msg=name)

def same_training(train):
    (one, result), (two, other) = train(1), train(2)
    same(one.state_dict(), two.state_dict())
    for before, after in zip(result.history, other.history, strict=True):
        same(before, after)
    assert (result.epoch, len(result.history)) == (other.epoch, 2)
    return one

# The last batch has one graph: the first process has none of it.
data = classification_set()

def molecules(devices, **kwargs):
    net = small_network(data)
    options = quick(epochs=2, devices=devices, **exact)
    return net, fit(net, data[:33], data[33:], options, progress=False, **kwargs)

one = same_training(molecules)

def texts(devices):
    options = ClassifierOptions(epochs=2, batch_size=8, balance=True, devices=devices, **exact)
    net = classifier()
    return net, fit_classifier(net, reviews(33), reviews(11, seed=1), options, progress=False)

def language(devices):
    data = corpus()
    net = model(len(data.vocabulary))
    options = LanguageOptions(epochs=2, batch_size=3, bptt=7, lr=0.5, devices=devices, **exact)
    return net, fit_language_model(net, data, options, progress=False)

same_training(texts)
same_training(language)

# A process is killed in the second epoch; the training goes on where it was.
step, parent = NetworkModule.training_step, os.getpid()

def killed(self, batch, batch_idx):
    if (self.current_epoch, self.global_rank) == (1, 1):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, batch, batch_idx)

NetworkModule.training_step = killed
try:
    molecules(2, directory=place / "killed")
except ChildProcessError as error:
    assert "process 1 of the training (0 … 1) was killed by SIGKILL" in str(error), error
else:
    raise AssertionError("nothing was said")
NetworkModule.training_step = step
net, result = molecules(2, directory=place / "killed", resume=True)
same(one.state_dict(), net.state_dict())
assert len(result.history) == 2

# The command: alone, and as torchrun starts it; the second process writes nothing.
table = write_table(place / "table.csv", regression_set())
words = ["train", "--data-path", str(table), "--target-columns", "Act", *SMALL_RUN]
words += ["--precision", "64-true", "--accelerator", "cpu", "--num-workers", "0", "--no-cache"]
words += ["--ensemble-size", "2"]
os.environ |= {"TORCHELASTIC_RUN_ID": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
os.environ["MASTER_PORT"] = str(LightningEnvironment().main_port)
children = []
for devices, rank in ((1, 0), (2, 0), (2, 1)):
    children.append(os.fork())
    if not children[-1]:
        os.environ |= {"WORLD_SIZE": str(devices), "RANK": str(rank), "LOCAL_RANK": str(rank)}
        folder = place / f"devices{devices}"
        os._exit(main([*words, "--devices", str(devices), "--output-dir", str(folder)]))
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]

def report(devices):
    scores = json.loads((place / f"devices{devices}" / "metrics.json").read_text())["scores"]
    return {part: scores[part]["mean"]["rmse"] for part in ("train", "valid", "test")}

same(report(1), report(2))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.slow
def test_two_processes_equal_one(tmp_path: Path) -> None:
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(words, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_who_starts_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match="devices=2, num_nodes=2: start it by torchrun or srun, 2 processes on"
    ):
        environment_of(quick(devices=2, num_nodes=2))
    slurm = {"JOB_ID": 1, "NTASKS": 4, "STEP_NUM_TASKS": 4, "NTASKS_PER_NODE": 2, "PROCID": 3, "LOCALID": 1}
    for name, value in slurm.items():
        monkeypatch.setenv(f"SLURM_{name}", str(value))
    environment = environment_of(quick(devices=2, num_nodes=2))
    assert (environment.global_rank(), environment.local_rank(), environment.world_size()) == (3, 1, 4)
    with pytest.raises(ValueError, match=r"srun started 4 processes, 2 on this node, .* are 2, 2 on a node"):
        environment_of(quick(devices=2))
    for name, value in {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"torchrun started 4 processes, 4 on this node"):
        environment_of(quick(devices=2, num_nodes=2))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows has no masks of signals")
def test_interrupts_wait_while_processes_start() -> None:
    """And these never get Ctrl-C, also while they import: the one that started them ends them."""
    script = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    said = []

    def start() -> None:
        with without_interrupts():
            os.kill(os.getpid(), signal.SIGINT)
            said.append(subprocess.check_output([sys.executable, "-S", "-c", script], text=True))

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        assert said == ["True\n"]
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_what_trains_in_one_process() -> None:
    with pytest.raises(ValueError, match=r"devices=2: the machine of model='gp' trains in one process"):
        MoleculeRegressor("gp").fit(["C", "CC"], [1, 2], devices=2)
    with pytest.raises(ValueError, match=r"batch_size=2: 3 devices need a stream each"):
        fit_language_model(None, None, LanguageOptions(batch_size=2, devices=3))  # type: ignore[arg-type]


def test_devices_of_estimators(monkeypatch: pytest.MonkeyPatch) -> None:
    def together(_: Any, options: Any) -> None:
        raise RuntimeError(f"{options.devices} devices")

    monkeypatch.setattr(loop, "together", together)
    with pytest.raises(RuntimeError, match="3 devices"):
        MoleculeRegressor("wl").fit(["C" * n for n in range(1, 31)], range(30), devices=3)


def test_a_training_that_cannot_be_sent() -> None:
    data, options = regression_set(), quick(devices=2, accelerator="cpu")
    with pytest.raises(ValueError, match=r"devices=2: other processes cannot be sent the training: .*lambda"):
        fit(small_network(data), data, None, options, callbacks=[lambda: 0], progress=False)  # type: ignore[list-item]


def test_divergence_comes_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(DivergedError("training diverged", 3)))
    assert (str(error), error.epoch) == ("training diverged", 3)
