"""Prediction of libraries, table by table, with workers."""

from .tables import predict_tables

__all__ = [
    "predict_tables",
]
