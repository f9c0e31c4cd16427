"""JSON files of models that somebody edited on purpose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def edit(path: Path, change: dict[str, Any]) -> None:
    """Change entries of a JSON object, and take its digest away, as a file of an earlier version has none."""
    content = json.loads(path.read_text(encoding="utf-8")) | change
    content.pop("digest", None)
    path.write_text(json.dumps(content), encoding="utf-8")
