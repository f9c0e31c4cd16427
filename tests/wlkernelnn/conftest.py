"""Fitted estimators."""

from __future__ import annotations

import pytest

from tests.inputs.estimators import ACID, SIZE, SMALL, SMILES
from wlkernelnn import MoleculeClassifier, MoleculeRegressor


@pytest.fixture(scope="session")
def regressor() -> MoleculeRegressor:
    return MoleculeRegressor(**SMALL).fit(SMILES, SIZE)


@pytest.fixture(scope="session")
def classifier() -> MoleculeClassifier:
    return MoleculeClassifier(**SMALL).fit(SMILES, ACID)
