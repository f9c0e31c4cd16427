"""RDKit's switches for the whole process, set while molecules are read: features do not depend on them."""

from __future__ import annotations

from threading import Lock
from typing import Any

from rdkit import Chem

# What codes and scaffolds are made with. Older versions lack the last switch, and find the same rings.
_VALUES = {
    "UseLegacyStereoPerception": True,
    "AllowNontetrahedralChirality": True,
    "UseLegacyRingFinding": False,
}
_SWITCHES = {name: value for name, value in _VALUES.items() if hasattr(Chem, f"Set{name}")}


class Perception:
    """A block in which RDKit perceives stereochemistry and rings as our features need it.

    Afterwards the switches are as before. Several threads may be in such a block at once: the last one out
    sets them back.
    """

    def __init__(self) -> None:
        self._lock, self._users = Lock(), 0
        self._before: dict[str, bool] = {}

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._before = {name: getattr(Chem, f"Get{name}")() for name in _SWITCHES}
                _set(_SWITCHES)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                _set(self._before)

    def __reduce__(self) -> Any:
        return Perception, ()  # another process has its own switches


def _set(switches: dict[str, bool]) -> None:
    for name, value in switches.items():
        getattr(Chem, f"Set{name}")(value)


#: The block of this process.
FIXED = Perception()
