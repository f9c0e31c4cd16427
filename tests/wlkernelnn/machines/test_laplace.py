from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from sklearn.gaussian_process import GaussianProcessClassifier as SklearnClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from wlkernelnn.machines.evidence import LaplaceEvidence
from wlkernelnn.machines.laplace import Labels, laplace
from wlkernelnn.machines.posterior import ExactPosterior, NystromPosterior

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2))
Y = (X[:, 0] + 0.5 * RANDOM.normal(size=40) > 0.6).astype(float)
KERNEL = ConstantKernel(4.0) * RBF(1.0)
GRAM = KERNEL(X)
ONES = np.ones(40)


def exact(gram: np.ndarray, labels: Labels) -> tuple[ExactPosterior, np.ndarray]:
    return laplace(lambda y, noise: ExactPosterior(gram.copy(), y, noise), labels)


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
def test_it_is_the_mode(scale: float) -> None:
    labels = Labels(Y, RANDOM.uniform(0.5, 2, size=40), -0.7)
    posterior, f = exact(scale * GRAM, labels)
    np.testing.assert_allclose(posterior.alpha, labels.slope(f), atol=1e-7)
    np.testing.assert_allclose(scale * GRAM @ posterior.alpha, f, atol=1e-5)
    root = np.linalg.cholesky(scale * GRAM + 1e-10 * np.eye(40))
    best = minimize(lambda v: v @ v / 2 - labels.log_likelihood(root @ v), np.zeros(40), tol=1e-8)
    np.testing.assert_allclose(f, root @ best.x, atol=0.02)
    np.testing.assert_allclose(1 / posterior.noise, labels.curvature(f), rtol=1e-3)


@pytest.mark.parametrize("scale", [1e5, 1e6])
def test_steps_that_go_too_far_are_halved(scale: float) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 2))
    labels = Labels((x[:, 0] + 0.5 * random.normal(size=40) > 0.6).astype(float), ONES, -0.7)
    posterior, f = exact(scale * RBF(1.0)(x), labels)
    np.testing.assert_allclose(posterior.alpha, labels.slope(f), atol=1e-7)
    assert np.abs(f).max() < 200


def test_it_is_that_of_scikit_learn() -> None:
    machine = SklearnClassifier(KERNEL, optimizer=None).fit(X, Y)
    posterior, f = exact(GRAM, Labels(Y, ONES, 0.0))
    new = RANDOM.normal(size=(9, 2))
    np.testing.assert_allclose(machine.base_estimator_.pi_, expit(f), atol=1e-4)
    # scikit-learn averages over the latent variance; the class does not depend on it.
    assert ((posterior.mean(KERNEL(new, X)) > 0) == (machine.predict(new) == 1)).all()
    evidence = LaplaceEvidence([KERNEL], [GRAM], None, Labels(Y, ONES, 0.0))
    value = evidence.log_p(GRAM.copy(), np.empty(0))[0]
    assert value == pytest.approx(machine.log_marginal_likelihood_value_, rel=1e-5)


def test_leave_one_out_is_near_that_of_refits() -> None:
    """Of log-odds that range over 7, errors are 0.03 on average, and 0.15 at most."""
    labels = Labels(Y, ONES, -0.5)
    left_out, _ = exact(GRAM, labels)[0].leave_one_out()
    refit = np.empty(40)
    for i in range(40):
        rest = np.arange(40) != i
        posterior, _ = exact(GRAM[np.ix_(rest, rest)], Labels(Y[rest], ONES[rest], -0.5))
        refit[i] = GRAM[i, rest] @ posterior.alpha
    errors = np.abs(left_out - refit)
    assert np.ptp(refit) > 4
    assert errors.mean() < 0.03
    assert errors.max() < 0.15
    # What is fitted is much further away.
    assert np.abs(exact(GRAM, labels)[1] - refit).mean() > 5 * errors.mean()


def test_all_rows_as_landmarks_are_exact() -> None:
    labels = Labels(Y, ONES, -0.5)
    one, f = exact(GRAM, labels)
    other, g = laplace(NystromPosterior(GRAM.copy(), GRAM.copy(), np.diagonal(GRAM)).condition, labels)
    np.testing.assert_allclose(g, f, atol=1e-4)
    new = KERNEL(RANDOM.normal(size=(9, 2)), X)
    np.testing.assert_allclose(other.mean(new), one.mean(new), atol=1e-4)
    np.testing.assert_allclose(other.leave_one_out()[0], one.leave_one_out()[0], atol=1e-3)


def test_gradient_of_the_evidence() -> None:
    kernels = [RBF(1.0, "fixed"), RBF(0.5)]
    evidence = LaplaceEvidence(kernels, [kernels[0](X), None], X, Labels(Y, RANDOM.uniform(0.5, 2, 40), -0.5))
    logs = np.array([0.3, -0.4, 0.2])
    numeric = approx_fprime(logs, lambda at: evidence.loss(at)[0], 1e-5)
    np.testing.assert_allclose(evidence.loss(logs)[1], numeric, rtol=1e-3, atol=1e-4)
