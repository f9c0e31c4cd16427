"""Prediction of libraries, table by table, with workers."""

from .predict_tables import predict_tables

__all__ = [
    "predict_tables",
]
