"""A long training does not take ever more memory."""

from __future__ import annotations

from pathlib import Path
from resource import getpagesize
from typing import Any

import pytest
from pytorch_lightning.callbacks import Callback

from tests.inputs.molecules import quick, regression_set, small_network
from wlkernelnn.training import fit

STATM = Path("/proc/self/statm")


class Resident(Callback):
    """Pages in memory after every epoch."""

    def __init__(self) -> None:
        self.pages: list[int] = []

    def on_train_epoch_end(self, *_: Any) -> None:
        self.pages.append(int(STATM.read_text().split()[1]))


@pytest.mark.slow
@pytest.mark.skipif(not STATM.exists(), reason="needs Linux's /proc")
def test_memory_over_200_epochs(tmp_path: Path) -> None:
    """A checkpoint is written after each; 8 MB of a pool that is not yet full are no growth."""
    data, resident = regression_set(), Resident()
    options = quick(epochs=220)
    net = small_network(data)
    fit(net, data[:40], data[40:], options, progress=False, directory=tmp_path, callbacks=[resident])
    grown = (max(resident.pages[20:]) - resident.pages[19]) * getpagesize() // 1024
    print(grown, "kB")
    assert grown < 8192
