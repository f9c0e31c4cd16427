"""The marginal likelihood: its slopes, in any unit, and kernels that floats cannot hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from wlkernelnn.kernels import DeepGraphKernel
from wlkernelnn.machines import GaussianProcess
from wlkernelnn.machines.evidence import RegressionEvidence
from wlkernelnn.machines.known import KnownGram

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * RANDOM.normal(size=60) + 5
NEW = RANDOM.normal(size=(7, 2))
SMILES = [f"{'C' * n}{end}" for n in range(1, 13) for end in ("O", "N", "Cl")]


@pytest.mark.parametrize("num_parts", [1, 3])
def test_gradients_of_the_evidence_are_its_slopes(num_parts: int) -> None:
    kernels = [RBF(), RBF(0.5, "fixed"), RBF(2.0)][:num_parts]
    grams = [None if kernel.n_dims else kernel(X) for kernel in kernels]
    weight = RANDOM.uniform(0.5, 2, size=60)
    evidence = RegressionEvidence(kernels, grams, X, (Y - Y.mean()) / Y.std(), weight)
    own = sum(kernel.n_dims for kernel in kernels)
    at = np.concatenate([evidence.centre + RANDOM.normal(size=num_parts + 1), np.full(own, -0.3)])
    error = check_grad(lambda v: evidence.loss(v)[0], lambda v: evidence.loss(v)[1], at)
    assert error < 1e-4 * np.linalg.norm(evidence.loss(at)[1])


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_the_unit_of_a_kernel_does_not_matter(unit: float) -> None:
    one = GaussianProcess(RBF(1.0, "fixed") + RBF(2.0, "fixed")).fit(X, Y)
    scaled = [ConstantKernel(unit, "fixed") * RBF(length, "fixed") for length in (1.0, 2.0)]
    other = GaussianProcess(scaled[0] + scaled[1]).fit(X, Y)
    np.testing.assert_allclose(other.targets_[0].amplitudes * unit, one.targets_[0].amplitudes, rtol=1e-6)
    for theirs, ours in zip(other.predict(NEW, True), one.predict(NEW, True), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-6)


def test_values_too_large_for_floats_are_explained() -> None:
    with pytest.raises(ValueError, match=r"go from 1\.1e\+51 to 3\.7e\+98, more than .*normalize=True"):
        GaussianProcess(DeepGraphKernel(3, 2, 1.0)).fit(SMILES, range(len(SMILES)))
    indefinite = KnownGram(np.array([[1.0, 3.0], [3.0, 1.0]]))
    with pytest.raises(ValueError, match=r"with values up to 3, is not positive definite"):
        GaussianProcess(indefinite).fit(np.arange(2), [0.0, 1.0])
