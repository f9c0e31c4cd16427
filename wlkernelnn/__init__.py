"""Neural networks derived from kernels, for PyTorch Geometric."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conv import DeepKernelConv, RandomWalkKernelConv, WLKernelConv
    from .estimators import (
        GraphClassifier,
        GraphRegressor,
        MoleculeClassifier,
        MoleculeRegressor,
        StringClassifier,
        TextClassifier,
    )

__version__ = version("wlkernelnn")

__all__ = [
    "DeepKernelConv",
    "GraphClassifier",
    "GraphRegressor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "RandomWalkKernelConv",
    "StringClassifier",
    "TextClassifier",
    "WLKernelConv",
    "__version__",
]


def __getattr__(name: str) -> Any:
    # Torch takes seconds to be imported: help and what works with numpy alone need not wait for it.
    if name in __all__:
        module = "conv" if name.endswith("Conv") else "estimators"
        return getattr(import_module(f"wlkernelnn.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
