from __future__ import annotations

import numpy as np
import pytest

from tests.molecules import classification_set, small_network
from wlkernelnn.training import Ensemble
from wlkernelnn.training.molecules.outputs import column_names, column_values


def ensemble(size: int) -> Ensemble:
    data = classification_set()
    networks = [small_network(data, seed=seed).eval() for seed in range(size)]
    return Ensemble(networks, {"features": "ogb", "target_names": ["active", "aza"]})


@pytest.mark.parametrize(
    ("size", "names"), [(1, ["active", "aza"]), (3, ["active", "active_std", "aza", "aza_std"])]
)
def test_predictions(size: int, names: list[str]) -> None:
    data, several = classification_set(), ensemble(size)
    assert column_names("prediction", several) == names
    mean, std = several.predict(data)
    values = dict(zip(names, column_values("prediction", several, data, 7, None).T, strict=True))
    for task, name in enumerate(("active", "aza")):
        np.testing.assert_allclose(values[name], mean[:, task], rtol=1e-5)
        if size > 1:
            np.testing.assert_allclose(values[f"{name}_std"], std[:, task], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_fingerprints(size: int) -> None:
    data, several = classification_set(), ensemble(size)
    names = column_names("fingerprint", several)
    assert names[:2] == (["fp_0", "fp_1"] if size == 1 else ["fp_0_0", "fp_0_1"])
    assert len(set(names)) == 8 * size
    assert column_values("fingerprint", several, data, 7, None).shape == (len(data), 8 * size)
