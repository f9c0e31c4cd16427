"""Fixtures of the whole suite."""
# ruff: noqa: E402 (some things are set before what reads them is imported)

from __future__ import annotations

import functools
import gc
import os
import sys
import zlib
from pathlib import Path

import pytest

# Each full collection of garbage goes through all that was imported, half a second long. Imports cause ten.
gc.set_threshold(500_000)

# Tests are small and run side by side: threads would only wait for each other. Libraries read this when they
# are loaded, and so do the processes that tests start.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import torch

# Kernels for GPUs are interpreted where there is none; Triton asks for this when it is first imported.
os.environ.setdefault("TRITON_INTERPRET", "0" if torch.cuda.is_available() else "1")

from lightning_fabric.utilities import registry

from tests.inputs.molecules import SMALL_RUN, regression_set, write_table
from wlkernelnn.cli.main import main

# When ogb is first imported, it asks PyPI for its latest version, in a thread beside the test that runs then:
# a warning there is an error, at a moment that depends on the network. Without this package it does not ask.
sys.modules.setdefault("outdated", None)  # type: ignore[arg-type]

# Every trainer looks through all installed packages for callbacks; none is installed while tests run.
registry.entry_points = functools.cache(registry.entry_points)

# No power fails while tests run; those that train wait a tenth of their time for the disk at every file.
os.fsync = lambda handle: None


def pytest_collection_finish() -> None:
    """What was imported and collected stays: it is not looked at again."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test marked ``halved`` every second combination is among the slow ones, drawn by its name."""
    for item in items:
        if item.get_closest_marker("halved") and zlib.crc32(item.name.encode()) % 2:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Folder with the published data sets; tests that need it are skipped where there is none."""
    candidates = [os.environ.get("WLKERNELNN_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for candidate in candidates:
        if candidate and Path(candidate, "moleculenet").is_dir():
            return Path(candidate)
    pytest.skip("set WLKERNELNN_DATA to a folder with the published data sets")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of a test go to a folder of the session, never to the user's."""
    monkeypatch.setenv("WLKERNELNN_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Random inputs of a test are the same in every run."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two small networks by ``wlkernelnn train``, beside its table; not to be changed."""
    folder = tmp_path_factory.mktemp("trained")
    table = write_table(folder / "molecules.csv", regression_set())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WLKERNELNN_CACHE", str(folder / "cache"))
        command = f"train --data-path {table} --target-columns Act --output-dir {folder / 'run'}"
        assert main([*command.split(), *SMALL_RUN, "--ensemble-size", "2"]) == 0
    return folder / "run"
