"""What predicts together in a row of a table of molecules: networks, and a machine on the exact kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from wlkernelnn.bench.baselines.wl_machines import fit_machine
from wlkernelnn.bench.harness.molecule_runs import Split, run_method, run_network
from wlkernelnn.bench.harness.trained import Record, TrainedOptions
from wlkernelnn.models import GraphNetwork
from wlkernelnn.training import FitOptions

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
    recipe: FitOptions,
    seed: int,
    options: TrainedOptions,
    folder: Path,
    known: Mapping[str, Any],
) -> tuple[list[Record], list[Record]]:
    """Train the networks of a row, or take those that were trained, and fit its machine.

    Args:
        name: Of the row.
        row: Which members it has.
        split: Data set and parts.
        recipe: How networks are trained.
        seed: Of the first one.
        options: What is to be done.
        folder: Folder of the runs, which rows may have in common.
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
            replace(
                recipe,
                seed=seed + MEMBER_SEEDS * member,
                accelerator=options.accelerator,
                matmul_precision=options.matmul_precision,
            ),
            folder,
            epochs=options.limit(recipe.epochs),
            known=known,
        )
        for member in range(min(row.members, QUICK_MEMBERS) if options.quick else row.members)
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
