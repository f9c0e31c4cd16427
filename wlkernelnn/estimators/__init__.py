"""scikit-learn's face: estimators that read SMILES, texts and signals."""

from .molecules import MoleculeClassifier, MoleculeRegressor
from .signals import StringClassifier
from .texts import TextClassifier

__all__ = [
    "MoleculeClassifier",
    "MoleculeRegressor",
    "StringClassifier",
    "TextClassifier",
]
