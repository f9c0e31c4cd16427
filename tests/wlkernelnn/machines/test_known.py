from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.inputs.estimators import SMILES
from wlkernelnn.kernels import MoleculeKernel, WLSubtreeKernel
from wlkernelnn.machines import known as module
from wlkernelnn.machines.known import Known, flat_molecules


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    "kernel", [MoleculeKernel(), WLSubtreeKernel(1, normalize="minmax")], ids=["molecules", "counts"]
)
def test_blocks_make_the_whole_gram(kernel: Any, n_jobs: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several blocks of rows: those below the diagonal are mirrored. And other molecules with them."""
    monkeypatch.setattr(module, "_ROWS", 8)
    some, others = SMILES[:20], SMILES[20:31]
    known = Known.of(kernel, some, flat_molecules([kernel], some), n_jobs)
    np.testing.assert_allclose(known.gram(), kernel(some), rtol=1e-12)
    values = np.full((len(others), len(some)), np.nan)
    for rows, columns, block in known.others(others, flat_molecules([kernel], others)):
        values[rows, columns] = block
    np.testing.assert_allclose(values, kernel(others, some), rtol=1e-12)
