from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from wlkernelnn.datasets import featurize
from wlkernelnn.kernels import DescriptorKernel, GramTransformer
from wlkernelnn.testing import assert_psd

VALUES = np.random.default_rng(0).normal(size=(30, 4)).round(1) ** 3


def test_values_become_normal_quantiles_of_their_ranks() -> None:
    training = np.array([[5.0, 1, 7], [-2, 1, 7], [5, 1, 9], [100, 1, 8]])
    kernel = DescriptorKernel().fit(training)
    low, tied, high = norm.ppf([0.5 / 4, 2 / 4, 3.5 / 4])  # the second and third share their mean rank
    z = kernel.transform(training) * np.sqrt(2)  # one of three columns is constant
    np.testing.assert_allclose(z[:, 0], [tied, low, tied, high])
    between = kernel.transform(np.array([[1.5, 0, 1e9], [-1e9, 3, 7]])) * np.sqrt(2)
    np.testing.assert_allclose(between[:, 0], [(low + tied) / 2, low])
    np.testing.assert_allclose(between[0, 1], z[2, 1])


def test_is_a_matern_kernel_of_the_quantiles() -> None:
    kernel = DescriptorKernel(1.5, (0.1, 10.0)).fit(VALUES)
    z = kernel.transform(VALUES)
    expected, slope = Matern(1.5, (0.1, 10.0), nu=1.5)(z, eval_gradient=True)
    values, gradient = kernel(VALUES, eval_gradient=True)
    np.testing.assert_allclose(values, expected)
    np.testing.assert_allclose(gradient, slope)
    np.testing.assert_allclose(kernel(VALUES[:3], VALUES), expected[:3])
    np.testing.assert_array_equal(kernel.diag(VALUES), 1)
    assert_psd(kernel, VALUES)


def test_of_molecules_it_takes_their_descriptors() -> None:
    graphs, _ = featurize(["CCO", "c1ccccc1", "CCN", "CC(=O)O"], features="ogb+descriptors")
    kernel = DescriptorKernel().fit(graphs)
    gram = kernel(graphs)
    np.testing.assert_allclose(kernel(graphs[1:3], graphs), gram[1:3])
    np.testing.assert_allclose(gram, kernel(graphs.arrays.graph_x.numpy()))
    assert (gram[~np.eye(4, dtype=bool)] < 1).all()


def test_constant_descriptors_tell_nothing_apart() -> None:
    kernel = DescriptorKernel(1.0, (0.1, 10.0)).fit(np.ones((3, 2)))
    values, gradient = kernel(np.ones((3, 2)), eval_gradient=True)
    np.testing.assert_array_equal(values, np.ones((3, 3)))
    assert gradient.shape == (3, 3, 1)
    assert not gradient.any()


def test_clones_and_mistakes() -> None:
    kernel = DescriptorKernel(3.0)
    assert clone(kernel) == kernel
    assert kernel.n_dims == 0
    kernel.fit(VALUES)
    with pytest.raises(ValueError, match="expected 4 descriptors as in training, got 2"):
        kernel(VALUES[:, :2])
    plain, _ = featurize(["CCO"])
    with pytest.raises(ValueError, match=r"needs molecules with numbers of their own.*got features 'ogb'"):
        kernel(plain)


def test_scikit_learn_clones_what_was_fitted() -> None:
    kernel = DescriptorKernel().fit(VALUES)
    np.testing.assert_array_equal(clone(kernel)(VALUES), kernel(VALUES))
    y = VALUES[:, 0]
    GaussianProcessRegressor(kernel, alpha=0.1).fit(VALUES, y).predict(VALUES[:3])
    gram = GramTransformer(DescriptorKernel() + DescriptorKernel(0.5)).fit_transform(VALUES)
    np.testing.assert_allclose(gram, kernel(VALUES) + DescriptorKernel(0.5).fit(VALUES)(VALUES))
    with pytest.raises(NotFittedError, match="learns the ranks of training values first"):
        DescriptorKernel()(VALUES)


def test_descriptors_that_are_none() -> None:
    wrong = VALUES.copy()
    wrong[3, 2] = np.nan
    with pytest.raises(ValueError, match="row 3, column 2: expected finite descriptors, got nan"):
        DescriptorKernel().fit(wrong)
    assert DescriptorKernel().fit(VALUES)(VALUES[:0], VALUES).shape == (0, 30)
