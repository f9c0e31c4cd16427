"""Positive semi-definiteness: what makes a kernel a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from wlkernelnn.kernels import StructureKernel


def assert_psd(kernel: StructureKernel, X: Any, rtol: float = 1e-9) -> float:
    """The Gram matrix is symmetric, without eigenvalues below 0, and has the diagonal of ``diag``.

    Args:
        kernel: Any kernel in scikit-learn's protocol.
        X: Structures.
        rtol: How far the least eigenvalue may lie below 0, beside the largest one.
    """
    gram = np.asarray(kernel(X))
    if not np.isfinite(gram).all():
        raise AssertionError("the Gram matrix is not finite")
    scale = float(abs(gram).max(initial=0.0))
    if not gram.size:
        return 0.0
    for name, difference in (
        ("not symmetric", gram - gram.T),
        ("unlike diag", kernel.diag(X) - gram.diagonal()),
    ):
        largest = float(abs(difference).max())
        error = largest / scale if scale else largest and np.inf
        if not error <= rtol:  # nor is NaN right
            raise AssertionError(f"the Gram matrix is {name}: relative difference {error:.3g}")
    if scale == 0:
        return 0.0
    eigenvalues = np.linalg.eigvalsh((gram + gram.T) / 2)
    below = max(0.0, -float(eigenvalues[0] / eigenvalues[-1])) if eigenvalues[-1] > 0 else np.inf
    if below > rtol:
        raise AssertionError(
            f"the Gram matrix has eigenvalue {eigenvalues[0]:.5g} below 0, "
            f"the largest is {eigenvalues[-1]:.5g}"
        )
    return below
