from __future__ import annotations

import pytest

import wlkernelnn
from wlkernelnn import conv
from wlkernelnn.estimators import molecules as estimators


def test_layers_are_at_the_top() -> None:
    for name in wlkernelnn.__all__:
        assert name in dir(wlkernelnn)
    assert wlkernelnn.WLKernelConv is conv.WLKernelConv
    assert wlkernelnn.DeepKernelConv is conv.DeepKernelConv
    assert wlkernelnn.RandomWalkKernelConv is conv.RandomWalkKernelConv


def test_nothing_else_is() -> None:
    with pytest.raises(AttributeError, match="module 'wlkernelnn' has no attribute 'WLKernel'"):
        _ = wlkernelnn.WLKernel


def test_estimators_are_at_the_top() -> None:
    assert wlkernelnn.MoleculeRegressor is estimators.MoleculeRegressor
    assert wlkernelnn.MoleculeClassifier is estimators.MoleculeClassifier
