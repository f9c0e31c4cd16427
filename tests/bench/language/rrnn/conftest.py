from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from wlkernelnn.bench.language.rrnn import tasks


@pytest.fixture
def letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A short text in a folder of data sets, small snippets of it, and narrow networks."""
    data = tmp_path / "data"
    (data / "charlm").mkdir(parents=True)
    text = "".join(np.random.default_rng(0).choice(list("abc "), 6_000))
    (data / "charlm" / "wiki_az.txt.gz").write_bytes(gzip.compress(text.encode()))
    for name, value in {"LENGTH": 4, "NUM_VALID": 12, "NUM_TEST": 8, "CHANNELS": 6}.items():
        monkeypatch.setattr(tasks, name, value)
    monkeypatch.setattr(tasks, "NUM_TRAIN", {"wiki-5k": 24, "wiki-10k": 48, "ptb": 24})
    return data
