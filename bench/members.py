"""What predicts together in a row of a table of molecules: networks, and a machine on the exact kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from wlkernelnn.models import GraphNetwork
from wlkernelnn.training import FitOptions

from .molecule_runs import Split, run_method, run_network
from .trained import Record
from .wl_machines import fit_machine

# Members of an ensemble have seeds that are so far apart.
MEMBER_SEEDS = 1000
# The most networks of a quick run.
QUICK_MEMBERS = 2


class Row(Protocol):
    """What a row says of its members.

    Attributes:
        network: The class of its networks.
        arguments: Theirs, beside what the data say.
        members: How many there are; they differ in their seeds.
        machine: Numbers of iterations of the WL subtree kernel whose machine, see
            :func:`~.wl_machines.best_machine`, predicts with them; none for no machine.
    """

    @property
    def network(self) -> type[GraphNetwork]: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...

    @property
    def members(self) -> int: ...

    @property
    def machine(self) -> Sequence[int]: ...


def run_members(
    name: str,
    row: Row,
    split: Split,
    options: FitOptions,
    folder: Path,
    *,
    epochs: int,
    quick: bool,
    known: Mapping[str, Any],
) -> tuple[list[Record], list[Record]]:
    """Train the networks of a row, or take those that were trained, and fit its machine.

    Args:
        name: Of the row.
        row: Which members it has.
        split: Data set and parts.
        options: Of the first network.
        folder: Folder of the runs, which rows may have in common.
        epochs: Stop after so many epochs.
        quick: Few networks do.
        known: What a record is to say of the run.

    Returns:
        The records of the networks, and those of all members: the networks, then the machine.
    """
    networks = [
        run_network(
            name,
            row.network,
            row.arguments,
            split,
            replace(options, seed=options.seed + MEMBER_SEEDS * member),
            folder,
            epochs=epochs,
            known=known,
        )
        for member in range(min(row.members, QUICK_MEMBERS) if quick else row.members)
    ]
    if not row.machine:
        return networks, networks
    machine = run_method(
        name,
        split,
        lambda _: fit_machine(split, row.machine),
        folder,
        decided_by={"machine": list(row.machine)},
        known=known,
    )
    return networks, [*networks, machine]
