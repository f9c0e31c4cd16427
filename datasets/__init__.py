"""Data sets: from files of molecules, graphs or text to packed stores and mini-batches."""

from . import files, graphs, molecules, splits, text
from .files import *  # noqa: F403
from .graphs import *  # noqa: F403
from .molecules import *  # noqa: F403
from .splits import *  # noqa: F403
from .text import *  # noqa: F403

__all__: list[str] = []
__all__ += files.__all__
__all__ += graphs.__all__
__all__ += molecules.__all__
__all__ += splits.__all__
__all__ += text.__all__
