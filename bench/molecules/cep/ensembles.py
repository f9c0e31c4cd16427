"""What rows of CEP's tables predict together: all seeds of a row, and all networks of some rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wlkernelnn.bench.harness.molecule_runs import ensemble, for_table, made_alike
from wlkernelnn.bench.harness.outcomes import survivors
from wlkernelnn.bench.harness.trained import Record

# Networks that differ in more than their seeds: also averaged together.
MIXED = {"paper": (), "ours": ("wl-gated", "wl-paper")}
TOGETHER = "together"


def with_ensembles(runs: Sequence[Record], mixed: Sequence[str], output_dir: Path) -> list[Record]:
    """The runs of a table, the ensemble of every row with several, and that of all runs of some rows.

    An ensemble that the table has of just these runs stays. Others are made, if all predictions are there and
    all members were made with the same.

    Args:
        runs: Those of the table, with ensembles that it had.
        mixed: The rows of the last ensemble, of which each counts the same, however many seeds it has.
        output_dir: Folder of the table.
    """
    alone = [run for run in runs if "members" not in run]
    out = list(alone)
    groups = {name: (name,) for name in dict.fromkeys(run["model"] for run in alone)} | {TOGETHER: (*mixed,)}
    for name, names in groups.items():
        members = survivors([run for run in alone if run["model"] in names])
        count = Counter(member["model"] for member in members)
        if len(members) < 2 or set(count) != set(names):
            continue
        there = [run for run in runs if run["model"] == name and _is_of(run, members)]
        if not there and _can_predict_together(members, output_dir):
            found = [member | {"folder": str(output_dir / member["folder"])} for member in members]
            weights = [1 / count[member["model"]] for member in members]
            there = [for_table(ensemble(name, found, weights), output_dir)]
        out += there
    return out


def _is_of(run: Record, members: Sequence[Record]) -> bool:
    """Whether it is the ensemble of just these runs."""

    def identity(run: Record) -> tuple[Any, ...]:
        return run["model"], run["seed"], run.get("revision", ""), run.get("content", "")

    return sorted(map(identity, run.get("members", ()))) == sorted(map(identity, members))


def _can_predict_together(members: Sequence[Record], output_dir: Path) -> bool:
    tables = [output_dir / member["folder"] / "test_predictions.csv" for member in members]
    return made_alike(members) and all(path.is_file() for path in tables)
