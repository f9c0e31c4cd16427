"""scikit-learn's face: estimators that read SMILES, graphs, texts and signals."""

from .graphs import GraphClassifier, GraphRegressor
from .molecules import MoleculeClassifier, MoleculeRegressor
from .signals import StringClassifier
from .texts import TextClassifier

__all__ = [
    "GraphClassifier",
    "GraphRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "StringClassifier",
    "TextClassifier",
]
