from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wlkernelnn.kernels import RandomWalkKernel
from wlkernelnn.testing import assert_psd


class Given(RandomWalkKernel):
    """A Gram matrix as it is given."""

    def __init__(self, matrix: list[list[float]], diagonal: list[float]) -> None:
        super().__init__()
        self.matrix, self.diagonal = matrix, diagonal

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        return np.array(self.matrix)

    def diag(self, X: Any) -> np.ndarray:
        return np.array(self.diagonal)


@pytest.mark.parametrize(
    ("matrix", "diagonal", "message"),
    [
        ([[1, 2], [2, 1]], [1, 1], "has eigenvalue -1 below 0, the largest is 3"),
        ([[-1, 0], [0, -2]], [-1, -2], "has eigenvalue -2 below 0"),
        ([[2, 1], [0, 2]], [2, 2], "is not symmetric: relative difference 0.5"),
        ([[2, 1], [1, 2]], [2, 1], "is unlike diag: relative difference 0.5"),
        ([[2, 1], [1, 2]], [2, np.nan], "is unlike diag: relative difference nan"),
        ([[0, 0], [0, 0]], [0, 1], "is unlike diag"),
        ([[1, np.nan], [np.nan, 1]], [1, 1], "is not finite"),
    ],
    ids=["indefinite", "negative", "asymmetric", "diag", "nan diag", "diag of zeros", "nan"],
)
def test_what_is_no_kernel(matrix: list[list[float]], diagonal: list[float], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_psd(Given(matrix, diagonal), None)


def test_what_is_one() -> None:
    assert assert_psd(Given([[2, 1], [1, 2]], [2, 2]), None) == 0
    assert assert_psd(Given([[0.0]], [0.0]), None) == 0
    assert assert_psd(RandomWalkKernel(2), []) == 0
    # Rounding: singular, but for the last digit.
    assert 0 < assert_psd(Given([[1, 1], [1, 1 - 1e-15]], [1, 1 - 1e-15]), None) < 1e-12
