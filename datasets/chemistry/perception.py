"""RDKit's switches and logs are of the whole process: what they are while molecules are read."""

from __future__ import annotations

from threading import RLock
from typing import Any

from rdkit import Chem, rdBase

# What codes and scaffolds are made with. Older versions lack the last switch, and find the same rings.
_VALUES = {
    "UseLegacyStereoPerception": True,
    "AllowNontetrahedralChirality": True,
    "UseLegacyRingFinding": False,
}
_SWITCHES = {name: value for name, value in _VALUES.items() if hasattr(Chem, f"Set{name}")}


class Perception:
    """A block in which RDKit perceives stereochemistry and rings as our features need it, and logs nothing.

    Afterwards switches and logs are as before. They are of the whole process: one thread at a time is in such
    a block, which may hold others, and what is captured of a log is of this thread.
    """

    def __init__(self) -> None:
        self._lock, self._depth = RLock(), 0
        self._before: dict[str, bool] = {}
        self._silence: rdBase.BlockLogs | None = None

    def __enter__(self) -> None:
        self._lock.acquire()
        if not self._depth:
            self._before = {name: getattr(Chem, f"Get{name}")() for name in _SWITCHES}
            _set(_SWITCHES)
            self._silence = rdBase.BlockLogs()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._silence = None  # it ends with the object
            _set(self._before)
        self._lock.release()

    def __reduce__(self) -> Any:
        return Perception, ()  # another process has its own switches


def _set(switches: dict[str, bool]) -> None:
    for name, value in switches.items():
        getattr(Chem, f"Set{name}")(value)


#: The block of this process.
FIXED = Perception()
