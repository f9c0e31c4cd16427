"""scikit-learn's face: estimators that read SMILES."""

from .molecules import MoleculeClassifier, MoleculeRegressor

__all__ = [
    "MoleculeClassifier",
    "MoleculeRegressor",
]
