"""A kernel as a step of a scikit-learn pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.utils.validation import check_is_fitted

from .base import copied


class GramTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Turns structures into their kernel values with the training structures.

    It goes before an estimator with ``kernel="precomputed"``, which never sees the structures themselves:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.svm import SVC
    >>> from wlkernelnn.kernels import GramTransformer, RandomWalkKernel
    >>> kernel = RandomWalkKernel(2, normalize=True)
    >>> model = make_pipeline(GramTransformer(kernel), SVC(kernel="precomputed"))
    >>> model.fit(["CCO", "CCN", "CCCO", "CCCN"], [0, 1, 0, 1]).predict(["CCCCO", "CCCCN"])
    array([0, 1])

    In ``GridSearchCV`` the kernel's arguments have names such as ``gramtransformer__kernel__decay``.
    Give ``cross_val_score`` and the like whatever the kernel takes: a list, an object array
    (:func:`~wlkernelnn.kernels.objects`) or a packed store. They cut a packed store into lists of ``Data``,
    which the kernels read about as well.

    Args:
        kernel: The kernel, or a sum, product or power of kernels.

    Attributes:
        kernel_: A copy of the kernel, as it was when fitted.
        X_fit_: The training structures.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> GramTransformer:
        """Keep the structures ``X``; ``y`` is not looked at.

        Raises:
            TypeError: The kernel is none of structures.
        """
        if not isinstance(self.kernel, Kernel) or self.kernel.requires_vector_input:
            raise TypeError(f"kernel must be one of wlkernelnn.kernels, or made of them, got {self.kernel!r}")
        self.kernel_, X = clone(self.kernel), copied(X)
        fit_kernel(self.kernel_, X)
        self.X_fit_ = X
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.X_fit_)  # of which scikit-learn makes names

    def transform(self, X: Any) -> np.ndarray:
        """Kernel values ``[len(X), training structures]``.

        Raises:
            NotFittedError: ``fit`` has not been called.
            TypeError, ValueError: Structures that the kernel cannot compare.
        """
        check_is_fitted(self)
        return self.kernel_(X, self.X_fit_)

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and the Gram matrix ``[len(X), len(X)]``, of which only one half is computed.

        Raises:
            TypeError, ValueError: Structures that the kernel cannot compare.
        """
        return self.fit(X, y).kernel_(X)


def fit_kernel(kernel: Kernel, X: Any) -> None:
    """Fit a kernel, and all that it is made of, to structures, where there is something to fit."""
    if hasattr(kernel, "fit"):
        kernel.fit(X)
    for value in vars(kernel).values():
        if isinstance(value, Kernel):
            fit_kernel(value, X)
