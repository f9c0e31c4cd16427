"""Scripts that processes import while they start, and that would start processes in turn."""

from __future__ import annotations

import multiprocessing

# The status of a process that the script which it imports would have start processes.
NO_GUARD = 77


def check_main_module() -> None:
    """End a process that imports, while it starts, a script which starts processes itself."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(NO_GUARD)
