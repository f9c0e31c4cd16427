from __future__ import annotations

import numpy as np
import torch

from wlkernelnn.bench.harness.digest import digest


def test_equal_content_has_one_name() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    name = digest(values, np.array(["a", "b"]))
    assert len(name) == 8
    assert digest(torch.from_numpy(values.T.copy()).t(), np.array(["a", "b"])) == name


def test_whatever_differs_has_another() -> None:
    values = np.arange(6)
    others = [
        (values, values),
        (values.reshape(2, 3),),
        (values.astype(np.uint64),),
        (values + 1,),
        (values[:3], values[3:]),
        (values[:4], values[4:]),
    ]
    names = [digest(values), *(digest(*other) for other in others)]
    assert len(set(names)) == 7
